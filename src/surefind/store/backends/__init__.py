"""Backends: where chunks are kept and searched. One a file."""
