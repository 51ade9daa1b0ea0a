"""Chunkers: Document -> Chunks, offset-exact. One method a file."""
