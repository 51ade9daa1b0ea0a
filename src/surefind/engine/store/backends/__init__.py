"""Backends, one per file: they store and search chunks."""
