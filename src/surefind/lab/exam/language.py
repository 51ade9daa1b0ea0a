"""Guesses from letters and common words whether texts are English.

The bundled encoder and reranker were trained on English, so users with other documents are warned.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from surefind.engine.analyze.english import STOPWORDS

_WORD = re.compile(r"[a-z]+")
_RARE = re.compile(r"[^\x00-\x7f]+")
_LETTER = re.compile(r"[^\W\d_]")
_ACCENTED = re.compile(r"[\u00c0-\u024f]")
_OTHER = re.compile(r"(?![\u0370-\u03ff])[^\W\d_\x00-\u024f]|[\u0370-\u03ff]{3}")
"""Letters of a script other than Latin. Greek letters count only in runs of three: a single one is a symbol."""


def is_english(texts: Iterable[str]) -> bool:
    """False for another script, and for texts with accents and few English stop words (one word in four in English, one
    in thirty in German, French or Turkish). Program code and languages without accents count as English."""
    text = "\n".join(texts).lower()
    rare = " ".join(_RARE.findall(text))
    others, accents = len(_OTHER.findall(rare)), len(_ACCENTED.findall(rare))
    if not others and accents < 3:
        return True  # true of most texts, and saves counting their letters
    letters = len(_LETTER.findall(text)) or 1
    if others > 0.2 * letters:
        return False
    words = _WORD.findall(text)
    common = sum(word in STOPWORDS for word in words) / max(1, len(words))
    return common > 0.1 or accents < max(3, 0.005 * letters)
