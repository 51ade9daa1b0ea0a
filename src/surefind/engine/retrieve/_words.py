"""The term numbers of every chunk, in order; n-grams are counted from them.

They are saved beside an index that must be counted anew whenever a chunk changes, so that no chunk is analysed twice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surefind.base.disk.arrays import check_length, check_range, read_array, strings
from surefind.base.protocols import Analyzer, Progress
from surefind.base.types import BoolArray, IntArray
from surefind.engine.retrieve._terms import Terms


@dataclass(frozen=True, eq=False)
class TermCounts:
    vocabulary: list[str]
    """All terms in use, in alphabetical order."""
    terms: IntArray
    """All terms of all chunks, one chunk after another, by their number in the vocabulary."""
    sizes: IntArray
    """Number of terms in each chunk."""

    @classmethod
    def of(
        cls,
        texts: Sequence[str],
        analyzer: Analyzer,
        earlier: TermCounts | None = None,
        origin: IntArray | None = None,
        progress: Progress | None = None,
    ) -> TermCounts:
        """Analyses the texts. Texts with an `origin` in `earlier` are copied from there, with the same result."""
        if earlier is None or origin is None:
            numbers = Terms(analyzer, ())
            return cls._alphabetical(numbers.known, *numbers.of(texts, len(texts), progress))
        numbers = Terms(analyzer, earlier.vocabulary)
        new = np.flatnonzero(origin < 0).tolist()
        read, read_sizes = numbers.of([texts[i] for i in new], len(new), progress)
        kept = origin >= 0
        sizes = np.empty(len(texts), np.int32)
        sizes[~kept], sizes[kept] = read_sizes, earlier.sizes[origin[kept]]
        stays = np.zeros(len(earlier.sizes), np.bool_)
        stays[origin[kept]] = True
        stream = np.empty(int(sizes.sum()), np.int32)
        taken_over = np.repeat(kept, sizes)
        stream[taken_over] = earlier.terms[np.repeat(stays, earlier.sizes)]  # the order is the same in both
        stream[~taken_over] = read
        return cls._alphabetical(numbers.known, stream, sizes)

    def only(self, kept: BoolArray) -> TermCounts:
        """The words of the kept chunks alone."""
        known = {term: i for i, term in enumerate(self.vocabulary)}
        return self._alphabetical(known, self.terms[np.repeat(kept, self.sizes)], self.sizes[kept])

    @classmethod
    def _alphabetical(cls, known: dict[str, int], stream: IntArray, sizes: IntArray) -> TermCounts:
        used = np.bincount(stream, minlength=len(known)) > 0
        vocabulary = sorted(term for term, i in known.items() if used[i])
        number = np.empty(len(known), np.int32)
        number[[known[term] for term in vocabulary]] = np.arange(len(vocabulary), dtype=np.int32)
        return cls(vocabulary, number[stream], sizes)

    def save(self, folder: Path) -> None:
        np.save(folder / "words_terms.npy", self.terms)
        np.save(folder / "words_sizes.npy", self.sizes)
        (folder / "words.json").write_text(json.dumps(self.vocabulary, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> TermCounts:
        vocabulary = strings("words", json.loads((folder / "words.json").read_text(encoding="utf-8")))
        terms, sizes = (read_array(folder / f"words_{name}.npy", np.int32) for name in ("terms", "sizes"))
        check_range("terms", terms, 0, len(vocabulary))
        check_range("sizes", sizes, 0, 1 << 31)
        check_length("terms", terms, int(sizes.sum(dtype=np.int64)))
        return cls(vocabulary, terms, sizes)
