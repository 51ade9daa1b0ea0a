"""Prompts and answers of language models as plain values. Imports nothing from the layers above."""
