"""Enrichers: context beside a chunk's text, embedded and indexed with it, never returned as text."""
