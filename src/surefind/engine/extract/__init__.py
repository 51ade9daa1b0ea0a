"""Extractors: text -> the entities it names, their relations, and which names mean the same. One extractor per file."""
