"""Counts the terms of texts: from streams of terms to the postings of BM25, and what its scores depend on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from surefind.base.protocols import Analyzer, Progress
from surefind.base.types import IntArray
from surefind.engine.retrieve._plain import constant
from surefind.engine.retrieve._terms import Terms, building


class Saturation(Protocol):
    """The parameters of BM25 that a search needs."""

    @property
    def k1(self) -> float: ...

    @property
    def b(self) -> float: ...

    @property
    def analyzer(self) -> str: ...


class TermStatistics(NamedTuple):
    """What the scores of all chunks depend on."""

    chunks: int
    """The number of chunks."""
    average: float
    """The average number of terms of a chunk, at least 1."""
    df: NDArray[np.int64]
    """How many chunks contain each term of the vocabulary."""


class Merging(Protocol):
    """An index whose chunks another one takes over."""

    @property
    def vocabulary(self) -> list[str]: ...

    @property
    def lengths(self) -> IntArray: ...

    def transposed(self, kept: IntArray, count: int) -> tuple[Any, Any, Any]: ...


def read_terms(
    texts: Sequence[str],
    analyzer: Analyzer,
    earlier: Merging | None,
    origin: IntArray | None,
    progress: Progress | None,
) -> tuple[dict[str, int], Any, Any, Any, IntArray]:
    """Returns the number of each term, the terms of all texts in one stream with their frequencies, the offset of each
    text, and its length. Texts with an `origin` in an earlier index are copied from it."""
    new = np.arange(len(texts)) if origin is None else np.flatnonzero(origin < 0)
    terms = Terms(analyzer, earlier.vocabulary if earlier else ())
    stream, sizes = terms.of((texts[i] for i in new.tolist()), len(new), progress)
    lengths = np.zeros(len(texts), np.int32)
    lengths[new] = sizes
    counts = np.ones(len(stream), np.int32)
    if earlier is not None and origin is not None:
        stream, counts, sizes = _merge(earlier, origin, new, stream, sizes)
        lengths[origin >= 0] = earlier.lengths[origin[origin >= 0]]
    return terms.known, stream, counts, np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]), lengths


def posted(known: dict[str, int], stream: Any, counts: Any, offsets: Any) -> tuple[list[str], Any, Any, Any]:
    """Returns the vocabulary and the postings of its terms: where each begins, the chunks and the frequencies. Terms
    are numbered in alphabetical order and unused terms are dropped, so that the index depends on the texts alone and
    not on the order in which they were added."""
    kernels = building(len(stream))
    df = kernels.count_postings(stream, offsets, len(known))
    vocabulary = sorted(term for term, i in known.items() if df[i])
    kept = [known[term] for term in vocabulary]
    renumber = np.full(len(known), -1, np.int32)
    renumber[kept] = np.arange(len(vocabulary), dtype=np.int32)
    starts = np.concatenate([[0], np.cumsum(df[kept], dtype=np.int64)])
    return vocabulary, starts, *kernels.fill_postings(renumber[stream], counts, offsets, starts)


def shaped(docs: Any, tfs: Any, lengths: IntArray) -> tuple[Any, IntArray, IntArray]:
    """Returns the shape of each posting, and the frequency and the chunk length of each shape."""
    kinds, kind = np.unique(lengths, return_inverse=True)
    kernels = building(len(docs))
    sizes = kernels.greatest_tfs(constant(docs), constant(tfs), kind, len(kinds)) + 1
    firsts = np.cumsum(sizes) - sizes
    total = int(sizes.sum())
    shapes = np.empty(len(docs), np.uint16 if total <= 1 << 16 else np.uint32)
    kernels.fill_shapes(constant(docs), constant(tfs), kind, firsts, shapes)
    shape_tfs = (np.arange(total) - np.repeat(firsts, sizes)).astype(np.int32)
    return shapes, shape_tfs, np.repeat(kinds, sizes).astype(np.int32)


def _merge(earlier: Merging, origin: IntArray, new: Any, stream: Any, sizes: Any) -> tuple[Any, Any, Any]:
    """Merges the kept part of an earlier index and the new texts into one chunk-by-chunk stream."""
    kept = np.full(len(earlier.lengths), -1, np.int32)
    kept[origin[origin >= 0]] = np.flatnonzero(origin >= 0).astype(np.int32)
    offsets, terms, counts = earlier.transposed(kept, len(origin))
    all_sizes = np.diff(offsets)
    all_sizes[new] = sizes
    # Kept rows and new rows interleave; both are placed by the offsets of the merged stream.
    ends = np.cumsum(all_sizes)
    merged_terms = np.empty(int(ends[-1]) if len(ends) else 0, np.int32)
    merged_counts = np.ones(len(merged_terms), np.int32)
    is_new = np.zeros(len(origin), np.bool_)
    is_new[new] = True
    from_new = np.repeat(is_new, all_sizes)
    merged_terms[from_new] = stream
    merged_terms[~from_new] = terms
    merged_counts[~from_new] = counts
    return merged_terms, merged_counts, all_sizes
