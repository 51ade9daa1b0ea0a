"""Analyzers: text -> terms, for lexical retrieval. One analyzer per file.

An analyzer has two steps: `tokens(text)` finds raw tokens, `terms(token)` returns the terms of one token. The second is
a pure function of the token, so an index computes it once per distinct token instead of once per occurrence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from surefind.base.protocols import Analyzer

VERSION = 2
"""Version of the analyzers; increase it when a text gives other terms than before. It is part of the name of every term
index, so that an index is rebuilt and never searched or extended with terms it does not know."""


def analyze(analyzer: Analyzer, text: str) -> list[str]:
    return [term for token in analyzer.tokens(text) for term in analyzer.terms(token)]
