"""Whether texts read like English, as far as letters and the commonest words can tell.

The bundled encoder and reranker were trained on English: whoever has other documents should know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from surefind.analyze.english import STOPWORDS

_WORD = re.compile(r"[a-z]+")
_RARE = re.compile(r"[^\x00-\x7f]+")
_LETTER = re.compile(r"[^\W\d_]")
_ACCENTED = re.compile(r"[\u00c0-\u024f]")
_OTHER = re.compile(r"(?![\u0370-\u03ff])[^\W\d_\x00-\u024f]|[\u0370-\u03ff]{3}")
"""Letters of another script; a Greek one alone is a symbol."""


def is_english(texts: Iterable[str]) -> bool:
    """False for another script, or for accents and few English stop words (in English every fourth word is one, in
    German, French or Turkish one in thirty). Program code and languages that need no accents are let through."""
    text = "\n".join(texts).lower()
    rare = " ".join(_RARE.findall(text))
    others, accents = len(_OTHER.findall(rare)), len(_ACCENTED.findall(rare))
    if not others and accents < 3:
        return True  # as most texts are: their letters need not be counted
    letters = len(_LETTER.findall(text)) or 1
    if others > 0.2 * letters:
        return False
    words = _WORD.findall(text)
    common = sum(word in STOPWORDS for word in words) / max(1, len(words))
    return common > 0.1 or accents < max(3, 0.005 * letters)
