"""Fusers: several rankings of the same queries -> one. One method a file; `_join` adds up contributions."""
