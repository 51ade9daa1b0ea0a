"""The inverted index behind BM25. It stores frequencies and lengths, not scores, so k1 and b can change per search."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from surefind.abilities import query_tokens
from surefind.arrays import check_length, check_offsets, check_range, read_array, strings
from surefind.protocols import Analyzer, Progress
from surefind.retrieve._plain import DENSE_SHARE, best_chunks, constant, suffices
from surefind.retrieve._terms import Terms, compiled
from surefind.spec import make
from surefind.types import PAD, BoolArray, FloatArray, IdArray, IntArray, Mask, Query, Rankings, Wording

_ARRAYS = {"starts": np.int64, "docs": np.int32, "tfs": np.uint16, "lengths": np.int32}
_KEPT = 2
"""Number of (k1, b) pairs whose tables stay in memory."""
_LOOKED_UP = 1024
"""Postings whose access is looked up at a time."""
_REMEMBERED = 50_000
"""Number of query tokens whose terms are cached."""


class Saturation(Protocol):
    """The parameters of BM25 that a search needs."""

    @property
    def k1(self) -> float: ...

    @property
    def b(self) -> float: ...

    @property
    def analyzer(self) -> str: ...


class Postings:
    def __init__(
        self, vocabulary: list[str], starts: Any, docs: Any, tfs: Any, lengths: Any, analyzer: Analyzer
    ) -> None:
        self.vocabulary = vocabulary
        self.starts: NDArray[np.int64] = constant(starts)
        self.docs: IntArray = constant(docs)
        self.tfs: NDArray[np.uint16] = constant(tfs)
        self.lengths: IntArray = lengths
        self._analyzer = analyzer
        self._known_gains: dict[tuple[float, float], tuple[FloatArray, FloatArray, FloatArray]] = {}

    @classmethod
    def build(
        cls,
        texts: Sequence[str],
        analyzer: Analyzer,
        earlier: Postings | None = None,
        origin: IntArray | None = None,
        progress: Progress | None = None,
    ) -> Postings:
        """Indexes the texts. Texts with an `origin` in an earlier index are copied from it and not analysed again."""
        new = np.arange(len(texts)) if origin is None else np.flatnonzero(origin < 0)
        terms = Terms(analyzer, earlier.vocabulary if earlier else ())
        stream, sizes = terms.of([texts[i] for i in new.tolist()], progress)
        lengths = np.zeros(len(texts), np.int32)
        lengths[new] = sizes
        counts = np.ones(len(stream), np.int32)
        if earlier is not None and origin is not None:
            stream, counts, sizes = _merge(earlier, origin, new, stream, sizes)
            lengths[origin >= 0] = earlier.lengths[origin[origin >= 0]]
        offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        return cls._from_stream(terms.known, stream, counts, offsets, lengths, analyzer)

    @classmethod
    def _from_stream(
        cls,
        known: dict[str, int],
        stream: Any,
        counts: Any,
        offsets: Any,
        lengths: IntArray,
        analyzer: Analyzer,
    ) -> Postings:
        """Builds the postings. Terms are numbered in alphabetical order and unused terms are dropped, so the index
        depends on the texts alone and not on the order in which they were added."""
        df = compiled().count_postings(stream, offsets, len(known))
        vocabulary = sorted(term for term, i in known.items() if df[i])
        renumber = np.full(len(known), -1, np.int32)
        renumber[[known[term] for term in vocabulary]] = np.arange(len(vocabulary), dtype=np.int32)
        kept = [known[term] for term in vocabulary]
        starts = np.concatenate([[0], np.cumsum(df[kept], dtype=np.int64)])
        docs, tfs = compiled().fill_postings(renumber[stream], counts, offsets, starts)
        return cls(vocabulary, starts, docs, tfs, lengths, analyzer)

    def only(self, kept: BoolArray, retriever: Any) -> Postings:
        """The index of the kept chunks alone, as if it had been built from them."""
        stays = kept[self.docs]
        ends = np.concatenate([[0], np.cumsum(stays, dtype=np.int64)])[self.starts]
        used = np.diff(ends) > 0
        vocabulary = [self.vocabulary[i] for i in np.flatnonzero(used).tolist()]
        numbers = (np.cumsum(kept) - 1).astype(np.int32)
        starts = np.concatenate([[0], ends[1:][used]])
        docs, tfs = numbers[self.docs[stays]], self.tfs[stays]
        return Postings(vocabulary, starts, docs, tfs, self.lengths[kept], self._analyzer)

    def save(self, folder: Path) -> None:
        for name in _ARRAYS:
            np.save(folder / f"{name}.npy", getattr(self, name))
        (folder / "vocabulary.json").write_text(json.dumps(self.vocabulary, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, analyzer: Analyzer) -> Postings:
        """Reads an index, and checks everything that the kernels rely on."""
        vocabulary = strings("vocabulary", json.loads((folder / "vocabulary.json").read_text(encoding="utf-8")))
        arrays = {name: read_array(folder / f"{name}.npy", dtype) for name, dtype in _ARRAYS.items()}
        check_offsets("starts", arrays["starts"], len(vocabulary), len(arrays["docs"]))
        check_range("docs", arrays["docs"], 0, len(arrays["lengths"]))
        check_length("tfs", arrays["tfs"], len(arrays["docs"]))
        check_range("lengths", arrays["lengths"], 0, 1 << 31)
        return cls(vocabulary, analyzer=analyzer, **arrays)

    def __len__(self) -> int:
        return len(self.lengths)

    # ------------------------------------------------------------ search

    def search(self, retriever: Any, queries: Sequence[Query], k: int, allow: Mask) -> Rankings:
        terms, offsets = self._query_terms(retriever, queries)
        return self.search_terms(retriever, terms, offsets, k, allow)

    def search_terms(
        self,
        retriever: Saturation,
        terms: IntArray,
        offsets: NDArray[np.int64],
        k: int,
        allow: Mask,
    ) -> Rankings:
        """As `search`, for queries given as term numbers: the terms of query q are terms[offsets[q]:offsets[q+1]]."""
        n_queries = len(offsets) - 1
        k = min(k, len(self.lengths))
        ordinals = np.full((n_queries, k), PAD, np.int32)
        scores = np.full((n_queries, k), -np.inf, np.float32)
        if k and self.vocabulary and suffices(len(self.docs), n_queries, "_kernels"):
            found, own = best_chunks(self._plain_terms(retriever, terms), allow.kernel, len(self.lengths), k)
            ordinals[0, : len(found)], scores[0, : len(found)] = found, own
        elif k and self.vocabulary:
            gains, table, peaks = self._gains(retriever)
            shapes, _, _ = self._shapes
            compiled().search(
                terms.copy(), offsets, self._idf[terms], self.starts, self.docs, shapes, gains, self._dense_of, table,
                peaks, allow.kernel, k, ordinals, scores,
            )  # fmt: skip
        return Rankings(ordinals.astype(np.int64), scores, "bm25", "sparse", 0.0)

    def _plain_terms(self, retriever: Saturation, terms: IntArray) -> list[tuple[float, Any, Any]]:
        """The weight, the chunks and the gains of each term: rare terms first, as the kernel adds them."""
        weights: dict[int, np.float32] = {}
        for term in terms.tolist():
            weights[term] = weights.get(term, np.float32(0)) + self._idf[term]
        norms = retriever.k1 * (1 - retriever.b + retriever.b * self.lengths / max(1.0, float(self.lengths.mean())))
        found = []
        for term in sorted(weights, key=lambda one: bool(self._dense_of[one] >= 0)):
            span = slice(self.starts[term], self.starts[term + 1])
            tfs, norm = self.tfs[span].astype(np.int64), norms[self.docs[span]]
            gains = (tfs * (retriever.k1 + 1) / np.maximum(tfs + norm, 1)).astype(np.float32)
            found.append((float(weights[term]), self.docs[span], gains))
        return found

    def warm(self) -> None:
        """Loads the compiled kernels."""
        compiled()

    def terms_of(self, queries: Sequence[Sequence[str]]) -> tuple[IntArray, NDArray[np.int64]]:
        """Converts terms to numbers, for `search_terms`; unknown terms are left out."""
        return _stream([self._ids[term] for term in query if term in self._ids] for query in queries)

    def score(self, retriever: Any, queries: Sequence[Query], ids: IdArray, allow: Mask) -> FloatArray:
        """The scores of given chunks, (queries, chunks). A chunk with none of the words scores 0, padding -inf."""
        terms, offsets = self._query_terms(retriever, queries)
        k1, b = retriever.k1, retriever.b
        weights = self._idf[terms] * (k1 + 1)
        norm = k1 * (1 - b + b * self.lengths / max(1.0, float(self.lengths.mean())))
        scores = np.zeros(ids.shape)
        for q in range(len(queries)):
            wanted = np.maximum(ids[q], 0)
            for i in range(offsets[q], offsets[q + 1]):
                start, end = self.starts[terms[i]], self.starts[terms[i] + 1]
                at = np.minimum(np.searchsorted(self.docs[start:end], wanted), end - start - 1)
                tf = np.where(self.docs[start + at] == wanted, self.tfs[start + at], 0)
                scores[q] += weights[i] * tf / np.maximum(tf + norm[wanted], 1)  # tf is 0 or at least 1
        return np.where(ids == PAD, -np.inf, scores).astype(np.float32)

    def wording(self, retriever: Any, queries: Sequence[Query], allow: Mask) -> list[Wording]:
        return [self._wording(retriever, query, allow) for query in queries]

    def _wording(self, retriever: Saturation, query: Query, allow: Mask) -> Wording:
        """The best score is that of an endless passage of these words, in which each gains idf · (k1 + 1). A term that
        only withheld chunks have counts as one that no chunk has, or else the score would show that they have it."""
        analyzer = make("analyze", retriever.analyzer)
        terms = map(self._terms_of_token, query_tokens(analyzer, query.text))
        unknown = float(np.log1p((len(self.lengths) + 0.5) / 0.5))
        weights: dict[str, float] = {}
        words = known = 0
        for of_token in filter(None, terms):  # stop words have none
            there = [term for term in of_token if self._occurs(term, allow)]
            found = {term: float(self._idf[self._ids[term]]) for term in there}
            weights |= found or dict.fromkeys(of_token[:1], unknown)
            words, known = words + 1, known + bool(found)
        return Wording((retriever.k1 + 1) * sum(weights.values()), words, known, weights, retriever.analyzer)

    def _occurs(self, term: str, allow: Mask) -> bool:
        """Whether an allowed chunk has the term."""
        id = self._ids.get(term)
        if id is None:
            return False
        docs = self.docs[self.starts[id] : self.starts[id + 1]]
        if allow.bits is None:
            return len(docs) > 0
        parts = (docs[at : at + _LOOKED_UP] for at in range(0, len(docs), _LOOKED_UP))
        return any(bool(allow.bits[part].any()) for part in parts)

    def arguments(self, retriever: Any, queries: Sequence[Query]) -> tuple[Any, ...]:
        """The arguments for kernels that score every chunk: the terms of the queries, the offset of each query, and the
        index for this k1 and b."""
        gains, table, _ = self._gains(retriever)
        shapes, _, _ = self._shapes
        terms = self._query_terms(retriever, queries)
        return *terms, self._idf, self.starts, self.docs, shapes, gains, self._dense_of, table

    def document_frequency(self, term: str) -> int:
        i = self._ids.get(term)
        return 0 if i is None else int(self.starts[i + 1] - self.starts[i])

    def _query_terms(self, retriever: Saturation, queries: Sequence[Query]) -> tuple[IntArray, NDArray[np.int64]]:
        """The known terms of each query. A repeated word counts each time.

        The analyzer is the retriever's: retrievers that treat queries differently may share this index."""
        analyzer, of = make("analyze", retriever.analyzer), self._ids_of_token
        return _stream(list(chain.from_iterable(map(of, query_tokens(analyzer, query.text)))) for query in queries)

    @cached_property
    def _ids_of_token(self) -> Callable[[str], tuple[int, ...]]:
        ids, terms = self._ids, self._analyzer.terms
        return lru_cache(_REMEMBERED)(lambda token: tuple(ids[term] for term in terms(token) if term in ids))

    @cached_property
    def _terms_of_token(self) -> Callable[[str], tuple[str, ...]]:
        terms = self._analyzer.terms  # not self: an index that refers to itself stays in memory after its reader
        return lru_cache(_REMEMBERED)(lambda token: tuple(terms(token)))

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {term: i for i, term in enumerate(self.vocabulary)}

    @cached_property
    def _idf(self) -> FloatArray:
        df = np.diff(self.starts)
        return np.log1p((len(self.lengths) - df + 0.5) / (df + 0.5)).astype(np.float32)

    @cached_property
    def _shapes(self) -> tuple[Any, NDArray[np.int64], NDArray[np.int64]]:
        """The shape of each posting; the frequency and the chunk length of each shape."""
        lengths, kind = np.unique(self.lengths, return_inverse=True)
        sizes = compiled().greatest_tfs(self.docs, self.tfs, kind, len(lengths)) + 1
        firsts = np.cumsum(sizes) - sizes
        total = int(sizes.sum())
        shapes = np.empty(len(self.docs), np.uint16 if total <= 1 << 16 else np.uint32)
        compiled().fill_shapes(self.docs, self.tfs, kind, firsts, shapes)
        return shapes, np.arange(total) - np.repeat(firsts, sizes), np.repeat(lengths, sizes).astype(np.int64)

    def _gains(self, retriever: Saturation) -> tuple[FloatArray, FloatArray, FloatArray]:
        """For this k1 and b: f(k1 + 1)/(f + k1(1 - b + b·length/average)) of each shape, the rows of the frequent
        terms, and the peak of each row."""
        k1, b = retriever.k1, retriever.b
        if (k1, b) not in self._known_gains:
            shapes, tfs, lengths = self._shapes
            average = max(1.0, float(self.lengths.mean()))
            norm = k1 * (1 - b + b * lengths / average)
            gains = np.where(tfs > 0, tfs * (k1 + 1) / np.maximum(tfs + norm, 1), 0).astype(np.float32)
            frequent = np.flatnonzero(self._dense_of >= 0).astype(np.int32)
            table, peaks = compiled().dense_rows(self.starts, self.docs, shapes, gains, frequent, len(self.lengths))
            kept = list(self._known_gains.items())[1 - _KEPT :]
            self._known_gains = {**dict(kept), (k1, b): (gains, table, peaks)}
            return gains, table, peaks
        return self._known_gains[k1, b]

    @cached_property
    def _dense_of(self) -> IntArray:
        """The row of each term in the table of frequent terms, or -1."""
        df = np.diff(self.starts)
        frequent = df * DENSE_SHARE > len(self.lengths)
        return np.where(frequent, np.cumsum(frequent) - 1, -1).astype(np.int32)


def _stream(rows: Iterable[list[int]]) -> tuple[IntArray, NDArray[np.int64]]:
    """Concatenates rows; returns them with the offset at which each starts."""
    found = array("i")
    offsets = [0]
    for row in rows:
        found.fromlist(row)
        offsets.append(len(found))
    return np.array(found, dtype=np.int32), np.array(offsets, dtype=np.int64)


def _merge(earlier: Postings, origin: IntArray, new: Any, stream: Any, sizes: Any) -> tuple[Any, Any, Any]:
    """Merges the kept part of an earlier index and the new texts into one chunk-by-chunk stream."""
    kept = np.full(len(earlier.lengths), -1, np.int32)
    kept[origin[origin >= 0]] = np.flatnonzero(origin >= 0).astype(np.int32)
    offsets, terms, counts = compiled().transpose(earlier.starts, earlier.docs, earlier.tfs, kept, len(origin))
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
