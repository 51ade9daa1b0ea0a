"""An index in memory: which documents contain given keys, such as words or the terms of headings."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence

from surefind.base.text.scripts import HANGUL, UNSPACED, pattern

_RUN = re.compile(r"[a-z0-9]+")
_OTHER_RUN = rf"[^\W_{UNSPACED}{HANGUL}]+|[{UNSPACED}{HANGUL}]"


class Inverted:
    """Key -> the numbers of the documents that contain it, in ascending order."""

    def __init__(self, keys: Iterable[Iterable[str]]) -> None:
        """`keys` has the distinct keys of each document."""
        self._places: dict[str, list[int]] = defaultdict(list)
        for number, of_document in enumerate(keys):
            for key in of_document:
                self._places[key].append(number)

    def holding(self, keys: Iterable[str]) -> list[int]:
        """The documents that contain all of the keys; none if there is no key. The rarest key decides how long this
        takes."""
        rarest, *others = sorted((self._places.get(key, []) for key in set(keys)), key=len) or [[]]
        return [number for number in rarest if all(_contains(places, number) for places in others)]


def _contains(numbers: Sequence[int], wanted: int) -> bool:
    at = bisect_left(numbers, wanted)
    return at < len(numbers) and numbers[at] == wanted


def pieces(text: str) -> set[str]:
    """The runs of letters and digits of a text, in lower case; in a script without spaces, its characters.

    Markup, punctuation and underscores separate pieces. So if one text contains another, word for word, it contains its
    pieces, whatever markup is between the words.
    """
    lowered = text.lower()
    return set(_RUN.findall(lowered) if lowered.isascii() else pattern(_OTHER_RUN).findall(lowered))
