"""The one writer: files are prepared outside any transaction, then committed as the next generation."""
