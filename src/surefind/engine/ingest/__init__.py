"""Readers: files -> Documents. Each module reads one format, and its name is the name of the reader."""
