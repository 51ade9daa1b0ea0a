"""Writing, by one writer at a time: prepares files outside any transaction, then commits the next generation."""
