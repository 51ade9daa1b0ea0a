"""Retrievers: Query -> Rankings. One method per file; files that begin with `_` hold the indexes they build."""
