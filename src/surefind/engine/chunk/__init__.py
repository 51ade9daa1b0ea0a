"""Chunkers: Document -> Chunks with exact character offsets. One chunker per file."""
