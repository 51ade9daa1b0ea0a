"""The index behind TF-IDF: the n-grams chosen as features, and for each feature its chunks and their weights.

The weights are those of unit vectors, so a cosine is a sum of products. They depend on the whole corpus (the choice of
features, the document frequencies), so they are always computed from scratch. An earlier index only saves analysing the
chunks again (`_words`).

The term numbers of every chunk, in order; n-grams are counted from them.

They are saved beside an index that must be counted anew whenever a chunk changes, so that no chunk is analysed twice.

The numba kernels of TF-IDF, and of its mixture with BM25: score every chunk, then take the best.

Postings hold final weights, so scoring a query is a sum. The best chunks are selected as in BM25.

The index behind `sparse`: a BM25 index and a TF-IDF index over the same chunks, searched together.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from surefind.base.disk.arrays import check_length, check_offsets, check_range, read_array, strings
from surefind.base.protocols import Analyzer, Progress
from surefind.base.types import PAD, BoolArray, FloatArray, Floats, IdArray, IntArray, Mask, Query, Rankings
from surefind.engine.analyze import analyze
from surefind.engine.retrieve import _kernels
from surefind.engine.retrieve._counting import Terms
from surefind.engine.retrieve._kernels import LAST, STRIP, add_dense, add_sparse, best_keys, greatest
from surefind.engine.retrieve._plain import constant
from surefind.engine.retrieve._postings import Postings


@njit(cache=True, nogil=True)
def _cosines(q, tfidf, scores):  # type: ignore[no-untyped-def]
    """Computes TF-IDF of query q for every chunk; q has `amounts` of features[offsets[q]:offsets[q+1]]."""
    features, amounts, offsets, starts, docs, weights = tfidf
    scores[:] = 0
    for i in range(offsets[q], offsets[q + 1]):
        for p in range(starts[features[i]], starts[features[i] + 1]):
            scores[np.uint32(docs[p])] += amounts[i] * weights[p]


@njit(cache=True, nogil=True)
def _words(q, bm25, scores):  # type: ignore[no-untyped-def]
    """Computes BM25 of query q for every chunk, from the same arrays as `_kernels.search`."""
    terms, offsets, idf, starts, docs, shapes, gains, dense_of, table = bm25
    scores[:] = 0
    for i in range(offsets[q], offsets[q + 1]):
        t = terms[i]
        if dense_of[t] >= 0:
            add_dense(scores, table[dense_of[t]], idf[t])
        else:
            first, last = starts[t], starts[t + 1]
            add_sparse(scores, docs[first:last], shapes[first:last], gains, idf[t])


@njit(cache=True, nogil=True)
def _share(weight, scores):  # type: ignore[no-untyped-def]
    """The factor that scales the highest score to `weight`; 0 if no score is above 0."""
    highest = np.float32(0)
    for score in scores:
        if score > highest:
            highest = score
    return np.float32(weight / highest) if highest > 0 else np.float32(0)


@njit(cache=True, nogil=True)
def _mixture(q, bm25, tfidf, weight, scores, others):  # type: ignore[no-untyped-def]
    """Mixes BM25 (share `weight`) and TF-IDF (the rest), each divided by its highest score over all chunks."""
    _words(q, bm25, scores)
    _cosines(q, tfidf, others)
    bm25_share, tfidf_share = _share(weight, scores), _share(1 - weight, others)
    for d in range(len(scores)):
        scores[d] = bm25_share * scores[d] + tfidf_share * others[d]


@njit(cache=True, nogil=True)
def _take_best(scores, allow, maxima, keys, k, out_d, out_s):  # type: ignore[no-untyped-def]
    """Takes the k best allowed chunks with a score above 0. A mask of length 0 allows everything."""
    for d in range(len(allow)):
        if not allow[d]:
            scores[d] = 0
    bits = scores.view(np.int32)
    for s in range(len(maxima)):
        maxima[s] = greatest(bits[s * STRIP : (s + 1) * STRIP])
    best = best_keys(bits, maxima, k, keys)
    for i in range(len(best)):
        out_d[i] = LAST - (best[i] & LAST)
        out_s[i] = scores[out_d[i]]


@njit(cache=True, nogil=True)
def _pick(scores, ordinals, out):  # type: ignore[no-untyped-def]
    for i in range(len(ordinals)):
        out[i] = scores[ordinals[i]] if ordinals[i] >= 0 else -np.inf


@njit(cache=True, nogil=True)
def search(tfidf, n, allow, k, out_d, out_s):  # type: ignore[no-untyped-def]
    """Finds the best k of n chunks for each query."""
    scores = np.empty(n, np.float32)
    maxima = np.empty((n + STRIP - 1) // STRIP, np.int32)
    keys = np.empty(4 * k + 2 * STRIP, np.int64)
    for q in range(len(out_d)):
        _cosines(q, tfidf, scores)
        _take_best(scores, allow, maxima, keys, k, out_d[q], out_s[q])


@njit(cache=True, nogil=True)
def search_both(bm25, tfidf, weight, n, allow, k, out_d, out_s):  # type: ignore[no-untyped-def]
    scores, others = np.empty(n, np.float32), np.empty(n, np.float32)
    maxima = np.empty((n + STRIP - 1) // STRIP, np.int32)
    keys = np.empty(4 * k + 2 * STRIP, np.int64)
    for q in range(len(out_d)):
        _mixture(q, bm25, tfidf, weight, scores, others)
        _take_best(scores, allow, maxima, keys, k, out_d[q], out_s[q])


@njit(cache=True, nogil=True)
def score(tfidf, n, ordinals, out):  # type: ignore[no-untyped-def]
    """The scores of given chunks for each query; -inf for padding."""
    scores = np.empty(n, np.float32)
    for q in range(len(ordinals)):
        _cosines(q, tfidf, scores)
        _pick(scores, ordinals[q], out[q])


@njit(cache=True, nogil=True)
def score_both(bm25, tfidf, weight, n, ordinals, out):  # type: ignore[no-untyped-def]
    scores, others = np.empty(n, np.float32), np.empty(n, np.float32)
    for q in range(len(ordinals)):
        _mixture(q, bm25, tfidf, weight, scores, others)
        _pick(scores, ordinals[q], out[q])


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


Gram = tuple[str, ...]
Longs = NDArray[np.int64]

_ARRAYS = {"starts": np.int64, "docs": np.int32, "weights": np.float32}


class Features:
    def __init__(
        self, grams: list[Gram], words: TermCounts, starts: Any, docs: Any, weights: Any, analyzer: Analyzer
    ) -> None:
        self.grams = grams
        self.words = words
        self.starts: Longs = constant(starts)
        self.docs: IntArray = constant(docs)
        self.weights: FloatArray = constant(weights)
        self._analyzer = analyzer

    @classmethod
    def build(
        cls,
        texts: Sequence[str],
        analyzer: Analyzer,
        ngrams: int,
        features: int,
        earlier: Features | None = None,
        origin: IntArray | None = None,
        progress: Progress | None = None,
    ) -> Features:
        words = TermCounts.of(texts, analyzer, earlier.words if earlier else None, origin, progress)
        return cls._of(words, analyzer, ngrams, features)

    def only(self, kept: BoolArray, retriever: Any) -> Features:
        """The index of the kept chunks alone, as if it had been built from them."""
        return self._of(self.words.only(kept), self._analyzer, retriever.ngrams, retriever.features)

    @classmethod
    def _of(cls, words: TermCounts, analyzer: Analyzer, ngrams: int, features: int) -> Features:
        levels = _levels(words.terms, words.sizes, len(words.vocabulary), ngrams, features)
        number = _number(levels, features)
        stream, offsets = _stream(levels, number, words.sizes)
        df = _kernels.count_postings(stream, offsets, min(features, len(number) - 1))
        starts = np.concatenate([[0], np.cumsum(df, dtype=np.int64)])
        docs, tfs = _kernels.fill_postings(stream, np.ones(len(stream), np.int32), offsets, starts)
        chunks = len(words.sizes)
        weights = _unit(tfs * np.repeat(_idf(df, chunks), df), docs, chunks)
        grams = [tuple(words.vocabulary[t] for t in gram) for gram in _chosen(levels, number)]
        return cls(grams, words, starts, docs, weights, analyzer)

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return len(self.words.sizes)

    def __len__(self) -> int:
        return self.chunks

    def save(self, folder: Path) -> None:
        """Saves the index. The file names differ from BM25's, because a `sparse` index keeps both in one folder."""
        for name in _ARRAYS:
            np.save(folder / f"tfidf_{name}.npy", getattr(self, name))
        (folder / "tfidf.json").write_text(json.dumps(self.grams, ensure_ascii=False), encoding="utf-8")
        self.words.save(folder)

    @classmethod
    def load(cls, folder: Path, analyzer: Analyzer) -> Features:
        """Reads an index, and checks everything that the kernels rely on."""
        grams = json.loads((folder / "tfidf.json").read_text(encoding="utf-8"))
        grams = [tuple(strings("tfidf", gram)) for gram in grams]
        words = TermCounts.load(folder)
        arrays = {name: read_array(folder / f"tfidf_{name}.npy", dtype) for name, dtype in _ARRAYS.items()}
        check_offsets("starts", arrays["starts"], len(grams), len(arrays["docs"]))
        check_range("docs", arrays["docs"], 0, len(words.sizes))
        check_length("weights", arrays["weights"], len(arrays["docs"]))
        return cls(grams, words, analyzer=analyzer, **arrays)

    # ------------------------------------------------------------ search

    def search(self, retriever: Any, queries: Sequence[Query], k: int, allow: Mask) -> Rankings:
        k = min(k, self.chunks)
        ordinals, scores = nothing((len(queries), k))
        if k and self.grams:
            search(self.arguments(queries), self.chunks, allow.kernel, k, ordinals, scores)
        return Rankings(ordinals.astype(np.int64), scores, "tfidf", "sparse", 0.0)

    def score(self, retriever: Any, queries: Sequence[Query], ids: IdArray, allow: Mask) -> FloatArray:
        """The scores of given chunks, (queries, chunks). A chunk with none of the features scores 0, padding -inf."""
        _, scores = nothing(ids.shape)
        if self.grams:
            score(self.arguments(queries), self.chunks, ids.astype(np.int32), scores)
        return scores

    def arguments(self, queries: Sequence[Query]) -> tuple[Any, ...]:
        """The arguments for the kernels: the unit vectors of the queries one after another (features, amounts), the
        offset of each query, and the postings."""
        counts = [self._counts(analyze(self._analyzer, query.text)) for query in queries]
        sizes = [len(count) for count in counts]
        features = np.array([i for count in counts for i in count], np.int32)
        tfs = np.array([tf for count in counts for tf in count.values()], np.float64)
        amounts = _unit(tfs * self._idf[features], np.repeat(np.arange(len(queries)), sizes), len(queries))
        return features, amounts, np.cumsum([0, *sizes]), self.starts, self.docs, self.weights

    def _counts(self, terms: list[str]) -> Counter[int]:
        """How often each feature occurs in a query; n-grams that are not features are left out."""
        ids = self._ids
        lengths = range(1, self._longest + 1)
        grams = (tuple(terms[i : i + length]) for length in lengths for i in range(len(terms) - length + 1))
        return Counter(ids[gram] for gram in grams if gram in ids)

    @cached_property
    def _ids(self) -> dict[Gram, int]:
        return {gram: i for i, gram in enumerate(self.grams)}

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self.grams), default=0)

    @cached_property
    def _idf(self) -> Floats:
        return _idf(np.diff(self.starts), self.chunks)


def nothing(shape: tuple[int, ...]) -> tuple[IntArray, FloatArray]:
    """Empty arrays of ordinals (PAD) and scores (-inf), for a kernel to fill."""
    return np.full(shape, PAD, np.int32), np.full(shape, -np.inf, np.float32)


def _idf(df: Longs, chunks: int) -> Floats:
    return np.log((1 + chunks) / (1 + df)) + 1


def _unit(weights: Floats, rows: NDArray[np.integer[Any]], n_rows: int) -> FloatArray:
    """Scales the weights so that each row (a chunk, a query) is a vector of length 1."""
    lengths = np.sqrt(np.bincount(rows, weights * weights, minlength=n_rows))
    return np.asarray(weights / lengths[rows], np.float32)


# ---------------------------------------------------------------- which n-grams


class _Level(NamedTuple):
    """The n-grams of one length, in alphabetical order."""

    grams: Longs
    """One row of term numbers per n-gram."""
    counts: Longs
    at: Longs
    """The n-gram that starts at each term of the stream; -1: none."""


def _levels(terms: IntArray, sizes: IntArray, n_terms: int, ngrams: int, limit: int) -> list[_Level]:
    """The n-grams of length 1, 2, … that can be among the `limit` most frequent."""
    left = np.repeat(np.cumsum(sizes), sizes) - np.arange(len(terms))  # terms from here to the chunk's end
    levels = [_Level(np.arange(n_terms)[:, None], np.bincount(terms, minlength=n_terms), terms.astype(np.int64))]
    for size in range(2, ngrams + 1):
        floor = _floor(np.concatenate([level.counts for level in levels]), limit)
        levels.append(_longer(levels[-1], terms, left >= size, floor))
    return levels


def _floor(counts: Longs, limit: int) -> int:
    """The frequency that a longer n-gram must exceed to be chosen."""
    return int(np.partition(counts, -limit)[-limit]) if len(counts) >= limit else 0


def _longer(level: _Level, terms: IntArray, fits: BoolArray, floor: int) -> _Level:
    """Counts the n-grams that are one term longer. An n-gram is no more frequent than the two shorter n-grams it
    contains, so only n-grams whose two shorter ones are above the floor are counted."""
    frequent = np.append(level.counts > floor, False)[level.at]
    here = np.flatnonzero(frequent[:-1] & frequent[1:] & fits[:-1])
    size, n_terms = level.grams.shape[1], int(terms.max(initial=0)) + 1
    keys, places, counts = np.unique(
        level.at[here] * n_terms + terms[here + size], return_inverse=True, return_counts=True
    )
    at = np.full(len(terms), -1, np.int64)
    at[here] = places
    return _Level(np.column_stack([level.grams[keys // n_terms], keys % n_terms]), counts, at)


def _number(levels: list[_Level], limit: int) -> IntArray:
    """The feature number of each n-gram of all levels, or -1; a last entry of -1 is for "no n-gram".

    Of equally frequent n-grams, the shorter comes first, then alphabetical order decides.
    """
    counts = np.concatenate([level.counts for level in levels])
    chosen = np.sort(np.argsort(-counts, kind="stable")[:limit])
    number = np.full(len(counts) + 1, -1, np.int32)
    number[chosen] = np.arange(len(chosen), dtype=np.int32)
    return number


def _chosen(levels: list[_Level], number: IntArray) -> Iterator[list[int]]:
    """The terms of each feature, in order."""
    first = 0
    for level in levels:
        yield from level.grams[number[first : first + len(level.grams)] >= 0].tolist()
        first += len(level.grams)


def _stream(levels: list[_Level], number: IntArray, sizes: IntArray) -> tuple[IntArray, Longs]:
    """The features of all chunks, and the offset at which each chunk's features start."""
    table = np.empty((len(levels[0].at), len(levels)), np.int32)
    first = 0
    for column, level in enumerate(levels):
        table[:, column] = number[np.where(level.at >= 0, level.at + first, -1)]
        first += len(level.grams)
    there = table >= 0
    ends = np.concatenate([[0], np.cumsum(np.count_nonzero(there, axis=1))])
    return table[there], ends[np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])]


class SparseIndex:
    def __init__(self, postings: Postings, features: Features) -> None:
        check_length("The BM25 part", postings, len(features))
        self.postings = postings
        self.features = features

    def __len__(self) -> int:
        return len(self.features)

    def only(self, kept: BoolArray, retriever: Any) -> SparseIndex:
        """The index of the kept chunks alone, as if it had been built from them."""
        return SparseIndex(self.postings.only(kept, retriever), self.features.only(kept, retriever))

    def save(self, folder: Path) -> None:
        self.postings.save(folder)
        self.features.save(folder)

    def search(self, retriever: Any, queries: Sequence[Query], k: int, allow: Mask) -> Rankings:
        k = min(k, self.features.chunks)
        ordinals, scores = nothing((len(queries), k))
        if k and self.features.grams:
            parts = self._arguments(retriever, queries)
            search_both(*parts, retriever.weight, self.features.chunks, allow.kernel, k, ordinals, scores)
        return Rankings(ordinals.astype(np.int64), scores, "sparse", "sparse", 0.0)

    def score(self, retriever: Any, queries: Sequence[Query], ids: IdArray, allow: Mask) -> FloatArray:
        """The scores of given chunks, (queries, chunks). A chunk with none of the words scores 0, padding -inf."""
        _, scores = nothing(ids.shape)
        if self.features.grams:
            parts = self._arguments(retriever, queries)
            score_both(*parts, retriever.weight, self.features.chunks, ids.astype(np.int32), scores)
        return scores

    def _arguments(self, retriever: Any, queries: Sequence[Query]) -> tuple[Any, Any]:
        """The kernel arguments of the BM25 index and of the TF-IDF index for these queries."""
        return self.postings.arguments(retriever, queries), self.features.arguments(queries)
