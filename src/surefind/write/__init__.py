"""Writing: files are prepared outside any transaction, then committed as the next generation, by one writer at a time."""
