"""Rerankers: the head of a ranking, reordered by looking at the passages. One method a file."""
