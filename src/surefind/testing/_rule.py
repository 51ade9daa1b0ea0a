"""Raises an error if a rule of a contract is broken."""

from __future__ import annotations


def rule(holds: object, sentence: str) -> None:
    if not holds:
        raise AssertionError(sentence)
