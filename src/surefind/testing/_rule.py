"""What a broken rule does."""

from __future__ import annotations


def rule(holds: object, sentence: str) -> None:
    if not holds:
        raise AssertionError(sentence)
