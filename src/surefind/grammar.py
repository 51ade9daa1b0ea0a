"""Splitting the text forms of pipelines and layouts into the specs that they are made of."""

from __future__ import annotations

import re


def split_outside(text: str, separator: str) -> list[str]:
    """Split outside parentheses, brackets and quotes."""
    parts: list[str] = []
    depth, start = 0, 0
    for match in re.finditer(rf'"(?:[^"\\]|\\.)*"|[()\[\]]|{re.escape(separator)}', text):
        token = match.group()
        if token in "([":
            depth += 1
        elif token in ")]":
            depth -= 1
        elif token == separator and depth == 0:
            parts.append(text[start : match.start()].strip())
            start = match.end()
    return [*parts, text[start:].strip()]
