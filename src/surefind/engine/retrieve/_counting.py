"""Counts the terms of texts: from streams of terms to the postings of BM25, and what its scores depend on.

Turns texts into streams of term numbers, for indexes of words.

The texts of chunks that may be on disk: each is read when it is used, so that they are never in memory together.
"""

from __future__ import annotations

import itertools
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from surefind.base.protocols import Analyzer, Progress
from surefind.base.types import Chunk, IntArray
from surefind.engine.analyze.auto import counted
from surefind.engine.retrieve import _plain
from surefind.engine.retrieve._plain import compiled, constant


class Texts(Sequence[str]):
    """The searchable texts of chunks."""

    def __init__(self, chunks: Sequence[Chunk], text_of: Callable[[Chunk], str] | None = None) -> None:
        self._chunks = chunks
        self._text_of = text_of or _searchable

    def __len__(self) -> int:
        return len(self._chunks)

    @overload
    def __getitem__(self, at: int) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...

    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        if isinstance(at, slice):
            return list(map(self._text_of, self._chunks[at]))
        return self._text_of(self._chunks[at])


def _searchable(chunk: Chunk) -> str:
    return chunk.searchable


_REPORT_EVERY = 2000
"""Texts between two reports of progress."""


def building(size: int) -> Any:
    """The functions that build an index with so many words or postings: the compiled kernels, or the same functions by
    numpy where loading the kernels would take longer than the work."""
    return _plain if _plain.suffices(size, 1, "_kernels") else compiled()


class Terms:
    """Assigns numbers to terms. Each distinct token is analysed once."""

    def __init__(self, analyzer: Analyzer, vocabulary: Sequence[str]) -> None:
        self._analyzer = analyzer
        self.known = {term: i for i, term in enumerate(vocabulary)}

    def of(self, texts: Iterable[str], count: int, progress: Progress | None) -> tuple[IntArray, IntArray]:
        """All terms of `count` texts in one stream, and how many belong to each text. The texts are read one by one, so
        they need not be in memory together."""
        seen: defaultdict[str, int] = defaultdict(itertools.count().__next__)
        number = seen.__getitem__
        tokens = array("i")
        sizes = np.zeros(count, np.int32)
        for i, text in enumerate(texts):
            tokens_of = self._analyzer.tokens(text)
            tokens.extend(map(number, tokens_of))
            sizes[i] = len(tokens_of)
            if progress and i % _REPORT_EVERY == 0:
                progress(i, count)
        known = self.known
        terms = array("i")
        firsts = np.zeros(len(seen) + 1, np.int64)
        for i, token in enumerate(seen, 1):
            terms.extend([known.setdefault(term, len(known)) for term in self._analyzer.terms(token)])
            firsts[i] = len(terms)
        stream = np.frombuffer(tokens, np.int32) if tokens else np.zeros(0, np.int32)
        stream, lengths = building(len(stream)).expand(stream, sizes, firsts, np.array(terms, dtype=np.int32))
        return stream, lengths


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
    languages: Mapping[str, int]
    """How many chunks are in each language but English, if the analyzer tells languages apart."""


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


def languages_in(vocabularies: Sequence[Sequence[str]], df: Sequence[Any]) -> dict[str, int]:
    """How many chunks are in each language that has a mark. Marks come first in a vocabulary."""
    return {
        counted(term): int(counts[i])
        for vocabulary, counts in zip(vocabularies, df, strict=True)
        for i, term in enumerate(itertools.takewhile(counted, vocabulary))
        if counts[i]
    }
