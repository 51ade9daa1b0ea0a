"""Checks that passages say a sentence: its numbers and names occur in them, and most of its words.

    share(s) = |terms of s that the passages have| / |terms of s|        at least `MIN_SUPPORT`

The check reads words, not meaning: it finds what was made up or taken from elsewhere. It does not find a "not" that was
lost.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from surefind.base.types import Hit
from surefind.engine.analyze.english import English

MIN_SUPPORT = 0.6
_ANALYZER = English()
_EXACT = re.compile(r"\d")
"""A term with a digit is an amount, a date or an identifier: it must occur as it is."""


def supported(sentence: str, passages: Sequence[Hit], summaries: Sequence[str] = ()) -> bool:
    """Whether these passages, with their titles and headings, and what sums them up, say a sentence."""
    wanted = _terms(sentence)
    if not wanted or not passages:
        return False
    known = set().union(*map(_terms, summaries))
    for hit in passages:
        known |= _terms(" ".join((hit.text, hit.title, *hit.headings)))
    exact = {term for term in wanted if _EXACT.search(term)}
    return exact <= known and len(wanted & known) >= MIN_SUPPORT * len(wanted)


def _terms(text: str) -> set[str]:
    return {term for token in _ANALYZER.content_tokens(text) for term in _ANALYZER.terms(token)}
