"""Imports and exports exams. One format per file. If a file has bad rows, nothing is imported and each row is named."""
