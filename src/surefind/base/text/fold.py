"""Folds different spellings of the same letter: accents, ß, Turkish ı, Arabic vowel signs, digits of other scripts.

Follows Lucene: ICUFoldingFilter and ASCIIFoldingFilter for Latin and Greek letters (`é` -> e, `ß` -> ss, `ø` -> o,
`ı` -> i, `ς` -> σ), ArabicNormalizationFilter and PersianNormalizationFilter for Arabic letters, DecimalDigitFilter for
digits. Unlike ICU's folding, it keeps marks that make a different letter: Russian й (but ё -> е, as Russians write),
vowel signs of Indic scripts, Japanese が.
"""

from __future__ import annotations

import re
import unicodedata

from surefind.base.text.scripts import UNSEEN

_ACCENTS = re.compile(r"(?<=[A-Za-z\u00c6-\u024f\u0370-\u03ff])[\u0300-\u036f]+")
_POINTS = re.compile("[\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed]")
_DIGIT = re.compile(r"[^\D0-9]")
_SAME = str.maketrans(
    {
        "ß": "ss", "ẞ": "SS", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L",
        "đ": "d", "Đ": "D", "ð": "d", "Ð": "D", "þ": "th", "Þ": "TH", "ħ": "h", "Ħ": "H", "ı": "i", "ς": "σ", "Σ": "σ",
        "ё": "е", "Ё": "Е", "ـ": "", "ى": "ي", "ی": "ي", "ک": "ك", "ة": "ه",
        **dict.fromkeys([*UNSEEN, *map(chr, range(0xFE00, 0xFE10))], ""),
        "\u200b": " ",
    }
)  # fmt: skip


def fold(text: str) -> str:
    """`Straße` -> Strasse, `ΑΘΉΝΑ` -> ΑΘΗΝΑ, `٢٠٤` -> 204; upper case stays."""
    if text.isascii():
        return text
    bare = _POINTS.sub("", _ACCENTS.sub("", unicodedata.normalize("NFD", text)))
    folded = unicodedata.normalize("NFC", bare).translate(_SAME)
    return _DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), folded)
