"""Prompts and answers of language models as plain values. Depends on nothing above it."""
