"""The knowledge base on disk: a SQLite catalogue, immutable indexes, one writer, many readers."""
