"""Searching: opens a generation, runs a pipeline over it, and turns the ranking into hits."""
