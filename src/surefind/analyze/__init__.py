"""Analyzers: text -> terms, for lexical retrieval. One analyzer a file.

An analyzer is two steps: `tokens(text)` finds raw tokens, `terms(token)` gives the terms of one. The second is a
pure function of the token, so an index computes it once per distinct token instead of once per occurrence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from surefind.protocols import Analyzer

VERSION = 2
"""Raised when the same text gives other terms than before: part of the name of every index of terms, so that one is
built anew and never searched, or continued, with terms that it does not know."""


def analyze(analyzer: Analyzer, text: str) -> list[str]:
    return [term for token in analyzer.tokens(text) for term in analyzer.terms(token)]
