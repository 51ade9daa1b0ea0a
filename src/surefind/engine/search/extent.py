"""How much text a search returns for each hit.

    parent      the passage that the layout returns; for most layouts it is larger than the one that was searched
    passage     the passage that was searched and found
    window=N    that passage with its N neighbours before and after it in the document

`max_chars` then cuts the text around the sentence that shares most with the query.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from surefind.base.errors import UsageError
from surefind.base.types import Hit

MAX_AROUND = 50
"""The most neighbours of a window."""
_MIN_CHARS, _MAX_CHARS = 50, 1_000_000
_WORD = 40
"""Characters searched for a space at which to cut."""


@dataclass(frozen=True, slots=True)
class Extent:
    around: int | None = None
    """Neighbours on either side of the found passage; None for the passage that the layout returns."""
    max_chars: int | None = None

    @classmethod
    def parse(cls, text: str = "parent", max_chars: int | None = None) -> Extent:
        """Reads the text form: `parent`, `passage` or `window=N`."""
        if max_chars is not None and not _MIN_CHARS <= max_chars <= _MAX_CHARS:
            raise UsageError(f"max_chars must be from {_MIN_CHARS} to {_MAX_CHARS:,}, not {max_chars}.")
        if text in ("parent", "passage"):
            return cls(None if text == "parent" else 0, max_chars)
        name, _, number = text.partition("=")
        if name == "window" and number.isascii() and number.isdigit() and int(number[:9]) <= MAX_AROUND:
            return cls(int(number), max_chars)
        raise UsageError(
            f"Cannot read the size of the text {text!r}. Write parent, passage, or window=N with N up to {MAX_AROUND}."
        )

    def cut(self, hit: Hit) -> Hit:
        """Cuts the text of a hit to `max_chars`, around its best sentence or, without one, around what was found."""
        most = self.max_chars
        if most is None or len(hit.text) <= most:
            return hit
        first, last = hit.sentence or hit.matched or (hit.start, hit.start)
        at, end = window(hit.text, first - hit.start, last - hit.start, most)
        text = hit.text[at:end]
        return replace(hit, start=hit.start + at, end=hit.start + end, text=text, lines=_lines(hit, at, end))


def window(text: str, first: int, last: int, most: int) -> tuple[int, int]:
    """Returns where to cut a text to `most` characters around those from `first` to `last`: between words."""
    if len(text) <= most:
        return 0, len(text)
    spare = max(0, most - (last - first))
    at = _word_start(text, max(0, min(first - spare // 3, len(text) - most)))
    return at, _word_end(text, min(at + most, len(text)))


def _word_start(text: str, at: int) -> int:
    """Returns the start of the next word, if there is one near."""
    space = text.find(" ", at, at + _WORD) if at and not text[at - 1].isspace() else -1
    return space + 1 if space >= 0 else at


def _word_end(text: str, at: int) -> int:
    """Returns the end of the last whole word, if there is one near."""
    space = text.rfind(" ", max(0, at - _WORD), at) if at < len(text) and not text[at].isspace() else -1
    return space if space >= 0 else at


def _lines(hit: Hit, start: int, end: int) -> tuple[int, int] | None:
    if hit.lines is None:
        return None
    first = hit.lines[0] + hit.text.count("\n", 0, start)
    return first, first + hit.text.count("\n", start, end - 1)
