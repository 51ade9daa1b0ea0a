"""Fusers: several rankings of the same queries -> one. One method per file; `support` holds the shared code."""
