"""Enrichers: add context to a chunk, which is embedded and indexed with its text but never returned as text."""
