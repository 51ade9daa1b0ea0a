"""Rerankers: reorder the head of a ranking by reading the passages. One file per method."""
