r"""Writing systems: marks that belong to a letter, scripts without spaces between words, and counts of words.

- *Marks* (vowel signs of Hindi, tones of Thai, accents typed on their own) belong to the letter before them, although
  Python's `\w` does not match them.
- *Unspaced* scripts put no spaces between words: Chinese, Japanese, and the scripts of Unicode's line-break class SA
  (Thai, Lao, Khmer, Burmese and related ones). Their smallest unit is a `cluster`: a character with its marks, with a
  consonant stacked below it, and with a vowel that is written before but spoken after it (like the Thai character
  clusters of Theeramunkong et al., 2000).

The constants are for use inside a character class of a regular expression.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import groupby

_MARKED_BLOCKS = ((0x0300, 0x1DFF), (0x20D0, 0x20F0), (0x302A, 0x309A), (0xA66F, 0xABED), (0xFB1E, 0xFE2F))


def _marks() -> Iterator[str]:
    for first, last in _MARKED_BLOCKS:
        codes = range(first, last + 1)
        for is_mark, run in groupby(codes, key=lambda code: unicodedata.category(chr(code))[0] == "M"):
            if is_mark:
                of_run = list(run)
                yield f"{chr(of_run[0])}-{chr(of_run[-1])}"


UNSEEN = "\u00ad\u200c\u200d\u2060\ufeff"
"""Invisible characters inside words: soft hyphen and joiners."""
MARKS = "".join(_marks()) + UNSEEN
HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
KANA = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
HANGUL = "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7fb"
SOUTHEAST = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf"  # Thai, Lao (not their digits, which make numbers)
    "\u1000-\u103f\u1050-\u108f\u109a-\u109d\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a-\uaa7f"  # Burmese
    "\u1780-\u17d3\u17d7\u17dc\u17dd"  # Khmer
    "\u1950-\u19c9\u1a20-\u1a7c\uaa80-\uaadd"  # Tai Le, New Tai Lue, Tai Tham, Tai Viet
)
UNSPACED = HAN + KANA + SOUTHEAST

_BEFORE = "\u0e40-\u0e44\u0ec0-\u0ec4"
_AFTER = "\u0e30\u0e32\u0e33\u0e45\u0eb0\u0eb2\u0eb3"
_STACKED = r"[\u17d2\u1039]."  # Khmer coeng and Burmese virama put the next consonant below
_CLOSING = r"[\u1000-\u1021]\u1037?\u103a"  # a Burmese consonant with asat ends the syllable before
CLUSTER = rf"(?:[{_BEFORE}]?[{UNSPACED}](?:{_STACKED}|{_CLOSING}|[{_AFTER}{MARKS}])*)"
UNSPACED_RUN = rf"[{UNSPACED}][{UNSPACED}{MARKS}\u200b]*"
_WORD = rf"{CLUSTER}|[^\W{UNSPACED}]+(?:[{MARKS}]+[^\W{UNSPACED}]*)*"
_BORDER = rf"(?<=[A-Za-z0-9])(?=[{UNSPACED}{HANGUL}])|(?<=[{UNSPACED}{HANGUL}])(?=[A-Za-z0-9])"
_ASCII_WORD = re.compile(r"\w+")
_PER_WORD = 2
"""Approximate number of clusters per word in an unspaced script."""


@cache
def pattern(expression: str) -> re.Pattern[str]:
    """The compiled expression, compiled on first use: these large character classes take milliseconds, and English text
    never needs them."""
    return re.compile(expression)


def clusters(run: str) -> list[str]:
    """The clusters of a run: `ที่นี่` -> ที่, นี่; `東京` -> 東, 京."""
    return pattern(CLUSTER).findall(run)


def spaced(text: str) -> str:
    """Puts a space where the script changes, since a name ends there: `LibreOfficeの設定` -> LibreOffice, の設定."""
    return text if text.isascii() else pattern(_BORDER).sub("\u3000", text)


def words(text: str) -> list[str]:
    """The words of a text in lower case, with their marks; for unspaced scripts, the clusters."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return pattern(_WORD).findall(text.lower())


def count_words(text: str) -> int:
    """The number of words: runs without white space, or half the number of clusters for unspaced scripts."""
    if text.isascii():
        return len(text.split())
    pieces = [len(clusters(run)) for run in pattern(UNSPACED_RUN).findall(text)]
    return (
        len(pattern(UNSPACED_RUN).sub(" ", text).split()) + -(-sum(pieces) // _PER_WORD)
        if pieces
        else len(text.split())
    )
