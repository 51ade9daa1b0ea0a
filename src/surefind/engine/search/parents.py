"""Folds children into parents: if small passages are searched and larger ones returned, a ranking holds each larger
passage once, at the rank of its best child.

How much text a search returns for each hit.

    parent      the passage that the layout returns; for most layouts it is larger than the one that was searched
    passage     the passage that was searched and found
    window=N    that passage with its N neighbours before and after it in the document

`max_chars` then cuts the text around the sentence that shares most with the query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from surefind.base.errors import UsageError
from surefind.base.types import PAD, BoolArray, Hit, IdArray, Rankings


def fold(rankings: Rankings, parents_of: Callable[[IdArray], IdArray | None]) -> Rankings:
    """Keeps the best child of each parent, with the child's score. `parents_of` returns the number of each child's
    parent, in the shape of the ranking; None if passages have no parents, and then nothing changes."""
    parents = parents_of(rankings.ids)
    if parents is None:
        return rankings
    there = rankings.ids != PAD
    order = np.argsort(parents, axis=1, kind="stable")
    ordered = np.take_along_axis(parents, order, 1)
    first = np.ones(parents.shape, np.bool_)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    kept = np.zeros_like(first)
    np.put_along_axis(kept, order, first, 1)
    return _closed_up(rankings, kept & there)


def short(rankings: Rankings, want: int) -> BoolArray:
    """Returns which rows hold fewer than `want` chunks."""
    return np.asarray(np.count_nonzero(rankings.ids != PAD, axis=1) < want)


def extend(rankings: Rankings, rows: IdArray, more: Rankings, parents: Callable[[IdArray], IdArray | None]) -> Rankings:
    """Appends to some rows of a ranking the passages of `more` that they do not hold yet. Scores of a deeper search may
    have another scale, so appended scores are capped at the last score before them."""
    wide = rankings.ids.shape[1] + more.ids.shape[1]
    ids = np.full((len(rankings), wide), PAD, np.int64)
    scores = np.full((len(rankings), wide), -np.inf, np.result_type(rankings.scores, more.scores))
    ids[:, : rankings.ids.shape[1]], scores[:, : rankings.ids.shape[1]] = rankings.ids, rankings.scores
    known, added = parents(rankings.ids), parents(more.ids)
    known, added = (rankings.ids, more.ids) if known is None or added is None else (known, added)
    for at, row in enumerate(rows.tolist()):
        n = int(np.count_nonzero(rankings.ids[row] != PAD))
        new = (more.ids[at] != PAD) & ~np.isin(added[at], known[row, :n])
        new_ids = more.ids[at][new]
        ids[row, n : n + len(new_ids)] = new_ids
        last = scores[row, n - 1] if n else np.inf
        scores[row, n : n + len(new_ids)] = np.minimum(more.scores[at][new], last)
    return _narrowed(replace(rankings, ids=ids, scores=scores))


def _closed_up(rankings: Rankings, kept: BoolArray) -> Rankings:
    """Removes the chunks that are not kept, and moves the others up."""
    close = np.argsort(~kept, axis=1, kind="stable")
    ids = np.take_along_axis(np.where(kept, rankings.ids, PAD), close, 1)
    scores = np.take_along_axis(np.where(kept, rankings.scores, -np.inf), close, 1)
    return _narrowed(replace(rankings, ids=ids, scores=scores))


def _narrowed(rankings: Rankings) -> Rankings:
    """Removes columns that are all padding."""
    width = int(np.max(np.count_nonzero(rankings.ids != PAD, axis=1), initial=0))
    return replace(rankings, ids=rankings.ids[:, :width], scores=rankings.scores[:, :width])


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
