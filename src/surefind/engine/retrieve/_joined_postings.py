"""A BM25 index of several parts. Scores depend on all chunks that are left, as in an index built from nothing.

The parts are immutable. What a deletion or a new part changes is how many chunks there are, how long they are on
average and how many contain a term. These figures are counted once, saved, and given to every part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from surefind.base.abilities import Part
from surefind.base.disk.arrays import check_length, check_range, read_array
from surefind.base.types import BoolArray, FloatArray, IdArray, IntArray, Mask, Query, Rankings, Wording
from surefind.engine.retrieve._counting import TermStatistics
from surefind.engine.retrieve._joined import Division
from surefind.engine.retrieve._postings import Postings
from surefind.engine.retrieve._terms import compiled
from surefind.engine.retrieve._wording import Words, wording_of

Longs = NDArray[np.int64]
_POSTINGS_AT_ONCE = 1 << 20
"""The postings that are looked at together."""


class JoinedPostings:
    def __init__(self, parts: Sequence[Part], folder: Path | None = None) -> None:
        """Joins parts; `folder` is where an index of the same parts was saved, if there is one."""
        given = [cast(Postings, part.index) for part in parts]
        self._division = Division([part.places for part in parts])
        alive = self._division.alive
        self._live = [
            _counted(posting, alive[i]) if folder is None else _read(folder / f"live-{i}.npy", posting)
            for i, posting in enumerate(given)
        ]
        lengths = sum(int(posting.lengths[alive[i]].sum(dtype=np.int64)) for i, posting in enumerate(given))
        average = max(1.0, lengths / max(1, len(self)))
        df = _frequencies([posting.vocabulary for posting in given], self._live)
        self.parts = [posting.among(TermStatistics(len(self), average, df[i])) for i, posting in enumerate(given)]
        self.analyzer = given[0].analyzer

    def __len__(self) -> int:
        return self._division.count

    def save(self, folder: Path) -> None:
        """Writes what was counted; the parts are saved already."""
        for i, live in enumerate(self._live):
            np.save(folder / f"live-{i}.npy", live)

    def warm(self) -> None:
        """Loads the compiled kernels."""
        compiled()

    def search(self, retriever: Any, queries: Sequence[Query], k: int, allow: Mask) -> Rankings:
        masks = self._division.masks(allow)
        rankings = [part.search(retriever, queries, k, mask) for part, mask in zip(self.parts, masks, strict=True)]
        return self._division.merged(rankings, min(k, len(self)))

    def score(self, retriever: Any, queries: Sequence[Query], ids: IdArray, allow: Mask) -> FloatArray:
        masks = self._division.masks(allow)
        return self._division.scored(ids, lambda i, own: self.parts[i].score(retriever, queries, own, masks[i]))

    def wording(self, retriever: Any, queries: Sequence[Query], allow: Mask) -> list[Wording]:
        masks = self._division.masks(allow)
        words = Words(
            self.parts[0].terms_of_token,
            lambda term: any(part.occurs(term, mask) for part, mask in zip(self.parts, masks, strict=True)),
            lambda term: next(part.weight(term) for part in self.parts if part.knows(term)),
            len(self),
        )
        return [wording_of(retriever, query, words) for query in queries]

    # ------------------------------------------------------------ building another index from this one

    def only(self, kept: BoolArray, retriever: Any) -> Postings:
        """The index of the kept chunks alone, as if it had been built from them."""
        origin = np.flatnonzero(kept).astype(np.int32)
        return Postings.build([""] * len(origin), self.analyzer, self, origin)

    @cached_property
    def vocabulary(self) -> list[str]:
        """The terms of all parts."""
        return list(dict.fromkeys(term for part in self.parts for term in part.vocabulary))

    @cached_property
    def lengths(self) -> IntArray:
        """The number of terms of each chunk."""
        all_lengths: IntArray = np.zeros(len(self), np.int32)
        for part, places, alive in zip(self.parts, self._division.places, self._division.alive, strict=True):
            all_lengths[places[alive]] = part.lengths[alive]
        return all_lengths

    def transposed(self, kept: IntArray, count: int) -> tuple[Any, Any, Any]:
        """The postings chunk by chunk, as `Postings.transposed` returns them."""
        number = {term: i for i, term in enumerate(self.vocabulary)}
        sizes, rows = np.zeros(count, np.int64), []
        for part, places in zip(self.parts, self._division.places, strict=True):
            own = np.where(places >= 0, kept[np.maximum(places, 0)], -1).astype(np.int32)
            offsets, terms, counts = part.transposed(own, count)
            renumbered = np.array([number[term] for term in part.vocabulary], np.int32)
            rows.append((np.diff(offsets), renumbered[terms], counts))
            sizes += np.diff(offsets)
        ends = np.cumsum(sizes)
        total = int(ends[-1]) if len(ends) else 0
        all_terms, all_counts = np.empty(total, np.int32), np.empty(total, np.int32)
        for own_sizes, terms, counts in rows:
            here = np.repeat(own_sizes > 0, sizes)
            all_terms[here], all_counts[here] = terms, counts
        return np.concatenate([[0], ends]), all_terms, all_counts


def _counted(part: Postings, alive: BoolArray) -> Longs:
    """How many of the chunks that are left contain each term of a part."""
    counts = np.diff(part.starts)
    if bool(alive.all()):
        return counts
    gone = ~alive
    for at in range(0, len(part.docs), _POSTINGS_AT_ONCE):  # only a writer counts, and it has checked the whole file
        lost = at + np.flatnonzero(gone.take(part.docs[at : at + _POSTINGS_AT_ONCE], mode="clip"))
        counts -= np.bincount(np.searchsorted(part.starts, lost, "right") - 1, minlength=len(counts))
    return counts


def _read(path: Path, part: Postings) -> Longs:
    counts = read_array(path, np.int64)
    check_length(path.name, counts, len(part.vocabulary))
    check_range(path.name, counts, 0, len(part) + 1)
    return counts


def _frequencies(vocabularies: Sequence[list[str]], live: Sequence[Longs]) -> list[Longs]:
    """How many chunks of all parts contain each term of each part. Only terms of the smaller parts are looked up."""
    largest = max(range(len(live)), key=lambda i: len(live[i]))
    small: Counter[str] = Counter()
    for i, vocabulary in enumerate(vocabularies):
        if i != largest:
            small.update(dict(zip(vocabulary, live[i].tolist(), strict=True)))
    known = {term: i for i, term in enumerate(vocabularies[largest]) if term in small}
    total, at = live[largest].copy(), np.fromiter(known.values(), np.int64, len(known))
    total[at] += np.fromiter((small[term] for term in known), np.int64, len(known))
    counts = {**small, **dict(zip(known, total[at].tolist(), strict=True))}
    return [
        total if i == largest else np.array([counts[term] for term in vocabulary], np.int64)
        for i, vocabulary in enumerate(vocabularies)
    ]
