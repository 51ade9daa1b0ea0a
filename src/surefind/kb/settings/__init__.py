"""surefind.toml: read, written anew, edited."""
