"""The inverted index behind BM25. It stores frequencies and lengths, not scores, so k1 and b can change per search.

A posting is a chunk and a *shape*: the pair of its frequency and its chunk's length, of which there are few. Large
arrays stay on disk, and are checked where a search first uses them. What an index knows about the words of a query is
its `Wording`.

An index of several parts scores as one that was built from nothing. The parts are immutable. What a deletion or a new
part changes is how many chunks there are, how long they are on average and how many contain a term. These figures are
counted once, saved, and given to every part.
"""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from surefind.base.abilities import Part, query_tokens
from surefind.base.disk.arrays import (
    LargeRange,
    check_length,
    check_offsets,
    check_range,
    range_checked,
    read_array,
    strings,
)
from surefind.base.protocols import Analyzer, Progress
from surefind.base.running import BoundedCache
from surefind.base.spec import make
from surefind.base.types import PAD, BoolArray, FloatArray, Floats, IdArray, IntArray, Mask, Query, Rankings, Wording
from surefind.engine.analyze.auto import Auto, Interpretation, interpretations
from surefind.engine.retrieve._counting import (
    Merging,
    Saturation,
    TermStatistics,
    building,
    languages_in,
    posted,
    read_terms,
    shaped,
)
from surefind.engine.retrieve._joined import Division
from surefind.engine.retrieve._plain import DENSE_SHARE, best_chunks, compiled, constant, suffices


class Words(NamedTuple):
    """What an index knows about its words."""

    terms_of: Callable[[str], tuple[str, ...]]
    """Returns the terms of a token."""
    occurs: Callable[[str], bool]
    """Whether a chunk that the caller may see has a term."""
    weight: Callable[[str], float]
    """Returns the weight of a term that occurs."""
    chunks: int


def best_of(rankings: Sequence[Rankings], k: int) -> Rankings:
    """Merges rankings of the same chunks: of each chunk its best score, the best k; equal scores in order of place."""
    if len(rankings) == 1:
        return rankings[0]
    ids = np.full((len(rankings[0]), k), PAD, np.int64)
    scores = np.full(ids.shape, -np.inf, np.float32)
    for row in range(len(ids)):
        parts = [ranking.row(row) for ranking in rankings]
        found, own = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
        order = np.lexsort((found, -own))
        first = np.sort(np.unique(found[order], return_index=True)[1])[:k]
        best = order[first]
        ids[row, : len(best)], scores[row, : len(best)] = found[best], own[best]
    return replace(rankings[0], ids=ids, scores=scores)


def best_wording(wordings: Sequence[Wording]) -> Wording:
    """Returns what is known of a query in the language in which most of its words are known."""
    return max(wordings, key=lambda wording: (wording.known, wording.best))


def wording_of(retriever: Saturation, query: Query, words: Words, analyzer: Analyzer) -> Wording:
    """The best score is that of an endless passage of these words, in which each gains idf · (k1 + 1). A term that only
    withheld chunks have counts as one that no chunk has, or else the score would show that they have it."""
    tokens = query_tokens(analyzer, query.text)
    unknown = float(np.log1p((words.chunks + 0.5) / 0.5))
    weights: dict[str, float] = {}
    count = known = 0
    for terms in filter(None, map(words.terms_of, tokens)):  # stop words have none
        weights_of = {term: words.weight(term) for term in terms if words.occurs(term)}
        weights |= weights_of or dict.fromkeys(terms[:1], unknown)
        count, known = count + 1, known + bool(weights_of)
    return Wording((retriever.k1 + 1) * sum(weights.values()), count, known, weights, str(analyzer))


_ARRAYS = {"starts": np.int64, "lengths": np.int32, "shape_tfs": np.int32, "shape_lengths": np.int32}
"""The arrays that are read when an index is opened; `docs` and `shapes` have an entry for each posting."""

_MAX_GAINS = 2
"""Number of (k1, b) pairs whose tables stay in memory."""
_LOOKED_UP = 1024
"""Postings whose access is looked up at a time."""
_REMEMBERED = 50_000
"""Number of query tokens whose terms are cached."""


class Postings:
    def __init__(
        self,
        vocabulary: list[str],
        starts: Any,
        docs: Any,
        shapes: Any,
        shape_tfs: Any,
        shape_lengths: Any,
        lengths: Any,
        analyzer: Analyzer,
        statistics: TermStatistics | None = None,
        ranges: Sequence[LargeRange] = (),
    ) -> None:
        """`statistics` are given if these are some of the chunks, and the scores depend on others as well."""
        self.vocabulary = vocabulary
        self.starts: NDArray[np.int64] = constant(starts)
        self.docs: IntArray = constant(docs)
        self.shapes: Any = constant(shapes)
        self.shape_tfs: IntArray = constant(shape_tfs)
        self.shape_lengths: IntArray = constant(shape_lengths)
        self.lengths: IntArray = lengths
        self.analyzer = analyzer
        self._statistics = statistics
        self._ranges = ranges
        self._known_gains: BoundedCache[tuple[float, float], tuple[FloatArray, FloatArray, FloatArray]]
        self._known_gains = BoundedCache(_MAX_GAINS)

    @classmethod
    def of(cls, vocabulary: list[str], starts: Any, docs: Any, tfs: Any, lengths: Any, analyzer: Analyzer) -> Postings:
        """Makes the index from the chunks and the frequencies of all postings."""
        return cls(vocabulary, starts, docs, *shaped(docs, tfs, lengths), lengths, analyzer)

    @classmethod
    def build(
        cls,
        texts: Sequence[str],
        analyzer: Analyzer,
        earlier: Merging | None = None,
        origin: IntArray | None = None,
        progress: Progress | None = None,
    ) -> Postings:
        """Indexes the texts. Texts with an `origin` in an earlier index are copied from it and not read at all."""
        known, stream, counts, offsets, lengths = read_terms(texts, analyzer, earlier, origin, progress)
        vocabulary, starts, docs, tfs = posted(known, stream, counts, offsets)
        return cls.of(vocabulary, starts, docs, tfs, lengths, analyzer)

    def among(self, statistics: TermStatistics) -> Postings:
        """The same index, with scores that depend on other chunks as well."""
        parts = self.starts, self.docs, self.shapes, self.shape_tfs, self.shape_lengths, self.lengths
        return Postings(self.vocabulary, *parts, self.analyzer, statistics, self._ranges)

    @cached_property
    def statistics(self) -> TermStatistics:
        """What the scores depend on."""
        average = max(1.0, float(self.lengths.mean())) if len(self.lengths) else 1.0
        df = np.diff(self.starts)
        return self._statistics or TermStatistics(len(self.lengths), average, df, languages_in([self.vocabulary], [df]))

    @property
    def tfs(self) -> NDArray[np.uint16]:
        """The frequency of each posting."""
        self.use_all()
        frequencies: NDArray[np.uint16] = self.shape_tfs.astype(np.uint16)[self.shapes]
        return frequencies

    def transposed(self, kept: IntArray, count: int) -> tuple[Any, Any, Any]:
        """The postings chunk by chunk: the offset of each chunk, terms and frequencies. `kept` has the new number of
        each chunk among `count`, or -1."""
        kernels = building(len(self.docs))
        arrays: tuple[Any, Any, Any] = kernels.transpose(self.starts, self.docs, constant(self.tfs), kept, count)
        return arrays

    def use_all(self) -> None:
        """Checks all postings that were not checked before."""
        for checked in self._ranges:
            checked.use(0, len(self.docs))

    def _use(self, terms: Iterable[int]) -> None:
        """Checks the postings of these terms that were not checked before."""
        for checked in self._ranges:
            for term in terms:
                checked.use(int(self.starts[term]), int(self.starts[term + 1]))

    def only(self, kept: BoolArray, retriever: Any) -> Postings:
        """The index of the kept chunks alone, as if it had been built from them."""
        self.use_all()
        stays = kept[self.docs]
        ends = np.concatenate([[0], np.cumsum(stays, dtype=np.int64)])[self.starts]
        used = np.diff(ends) > 0
        vocabulary = [self.vocabulary[i] for i in np.flatnonzero(used).tolist()]
        numbers = (np.cumsum(kept) - 1).astype(np.int32)
        starts = np.concatenate([[0], ends[1:][used]])
        docs, tfs = numbers[self.docs[stays]], self.tfs[stays]
        return Postings.of(vocabulary, starts, docs, tfs, self.lengths[kept], self.analyzer)

    def save(self, folder: Path) -> None:
        for name in (*_ARRAYS, "docs", "shapes"):
            np.save(folder / f"{name}.npy", getattr(self, name))
        (folder / "vocabulary.json").write_text(json.dumps(self.vocabulary, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, analyzer: Analyzer) -> Postings:
        """Reads an index, and checks everything that the kernels rely on."""
        vocabulary = strings("vocabulary", json.loads((folder / "vocabulary.json").read_text(encoding="utf-8")))
        arrays = {name: read_array(folder / f"{name}.npy", dtype) for name, dtype in _ARRAYS.items()}
        docs = read_array(folder / "docs.npy", np.int32)
        kinds = len(arrays["shape_tfs"])
        shapes = read_array(folder / "shapes.npy", np.uint16 if kinds <= 1 << 16 else np.uint32)
        check_offsets("starts", arrays["starts"], len(vocabulary), len(docs))
        check_length("shapes", shapes, len(docs))
        check_length("shape_lengths", arrays["shape_lengths"], kinds)
        for name in ("lengths", "shape_lengths", "shape_tfs"):
            check_range(name, arrays[name], 0, 1 << 31)
        chunks = len(arrays["lengths"])
        ranges = range_checked(folder / "docs.npy", docs, 0, chunks)
        ranges += range_checked(folder / "shapes.npy", shapes, 0, kinds)
        rest = arrays["shape_tfs"], arrays["shape_lengths"], arrays["lengths"]
        return cls(vocabulary, arrays["starts"], docs, shapes, *rest, analyzer, ranges=ranges)

    def __len__(self) -> int:
        return len(self.lengths)

    # ------------------------------------------------------------ search

    def search(self, retriever: Any, queries: Sequence[Query], k: int, allow: Mask) -> Rankings:
        asked = self._interpretations(retriever, queries)
        rankings = [self.search_terms(retriever, *self._query_terms(*own), k, allow) for own in asked]
        return best_of(rankings, min(k, len(self.lengths)))

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
            ids, own = best_chunks(self._plain_terms(retriever, terms), allow.kernel, len(self.lengths), k)
            ordinals[0, : len(ids)], scores[0, : len(ids)] = ids, own
        elif k and self.vocabulary:
            self._use({*terms.tolist()})
            gains, table, peaks = self._gains(retriever)
            compiled().search(
                terms.copy(), offsets, self._idf[terms], self.starts, self.docs, self.shapes, gains, self._dense_of,
                table, peaks, allow.kernel, k, ordinals, scores,
            )  # fmt: skip
        return Rankings(ordinals.astype(np.int64), scores, "bm25", "sparse", 0.0)

    def _plain_terms(self, retriever: Saturation, terms: IntArray) -> list[tuple[float, Any, Any]]:
        """The weight, the chunks and the gains of each term: rare terms first, as the kernel adds them."""
        weights: dict[int, np.float32] = {}
        for term in terms.tolist():
            weights[term] = weights.get(term, np.float32(0)) + self._idf[term]
        self._use(weights)
        gains_of = self._gains_of(retriever)
        weighted = []
        for term in sorted(weights, key=lambda number: bool(self._dense_of[number] >= 0)):
            span = slice(self.starts[term], self.starts[term + 1])
            weighted.append((float(weights[term]), self.docs[span], gains_of[self.shapes[span]]))
        return weighted

    def warm(self) -> None:
        """Loads the compiled kernels."""
        compiled()

    def terms_of(self, queries: Sequence[Sequence[str]]) -> tuple[IntArray, NDArray[np.int64]]:
        """Converts terms to numbers, for `search_terms`; unknown terms are left out."""
        return _stream([self._ids[term] for term in query if term in self._ids] for query in queries)

    def score(self, retriever: Any, queries: Sequence[Query], ids: IdArray, allow: Mask) -> FloatArray:
        """The scores of given chunks, (queries, chunks). A chunk with none of the words scores 0, padding -inf."""
        asked = self._interpretations(retriever, queries)
        scores = [self._scores(retriever, *self._query_terms(*own), ids) for own in asked]
        return np.where(ids == PAD, -np.inf, np.max(scores, axis=0)).astype(np.float32)

    def _scores(self, retriever: Saturation, terms: IntArray, offsets: NDArray[np.int64], ids: IdArray) -> Floats:
        self._use({*terms.tolist()})
        k1, b = retriever.k1, retriever.b
        weights = self._idf[terms] * (k1 + 1)
        scores = np.zeros(ids.shape)
        for q in range(len(ids)):
            wanted = np.maximum(ids[q], 0)
            norm = k1 * (1 - b + b * self.lengths[wanted] / self.statistics.average)
            own = slice(offsets[q], offsets[q + 1])
            at = self._places(terms[own], wanted)
            tf = np.where(self.docs[at] == wanted, self.shape_tfs[self.shapes[at]], 0)
            for gain in weights[own, None] * tf / np.maximum(tf + norm, 1):  # tf is 0 or at least 1
                scores[q] += gain
        return scores

    def _places(self, terms: IntArray, chunks: IdArray) -> IdArray:
        """Where the postings of each term have these chunks, or would have them: (terms, chunks)."""
        places = np.empty((len(terms), len(chunks)), np.int64)
        for row, term in enumerate(terms.tolist()):
            start, end = int(self.starts[term]), int(self.starts[term + 1])
            np.minimum(np.searchsorted(self.docs[start:end], chunks), end - start - 1, out=places[row])
            places[row] += start
        return places

    def wording(self, retriever: Any, queries: Sequence[Query], allow: Mask) -> list[Wording]:
        return self._wording(retriever, queries, lambda term: self.occurs(term, allow), self.weight)

    def _wording(
        self,
        retriever: Any,
        queries: Sequence[Query],
        occurs: Callable[[str], bool],
        weight: Callable[[str], float],
    ) -> list[Wording]:
        """What the words of queries are worth, by what all parts of an index know of terms."""
        asked = [
            (own, Words(self.terms_by(own.analyzer), occurs, weight, self.statistics.chunks))
            for own in self._interpretations(retriever, queries)
        ]
        return [
            best_wording([wording_of(retriever, at.queries[i], words, at.analyzer) for at, words in asked])
            for i in range(len(queries))
        ]

    def knows(self, term: str) -> bool:
        """Whether the term is in the vocabulary."""
        return term in self._ids

    def weight(self, term: str) -> float:
        """The idf of a term of the vocabulary."""
        return float(self._idf[self._ids[term]])

    def occurs(self, term: str, allow: Mask) -> bool:
        """Whether an allowed chunk has the term."""
        term_id = self._ids.get(term)
        if term_id is None:
            return False
        self._use([term_id])
        docs = self.docs[self.starts[term_id] : self.starts[term_id + 1]]
        if allow.bits is None:
            return len(docs) > 0
        parts = (docs[at : at + _LOOKED_UP] for at in range(0, len(docs), _LOOKED_UP))
        return any(bool(allow.bits[part].any()) for part in parts)

    def arguments(self, retriever: Any, queries: Sequence[Query]) -> tuple[Any, ...]:
        """The arguments for kernels that score every chunk: the terms of the queries, the offset of each query, and the
        index for this k1 and b."""
        gains, table, _ = self._gains(retriever)
        terms, offsets = self._query_terms(cast(Analyzer, make("analyze", retriever.analyzer)), queries)
        self._use({*terms.tolist()})
        return terms, offsets, self._idf, self.starts, self.docs, self.shapes, gains, self._dense_of, table

    def document_frequency(self, term: str) -> int:
        i = self._ids.get(term)
        return 0 if i is None else int(self.starts[i + 1] - self.starts[i])

    def _interpretations(self, retriever: Saturation, queries: Sequence[Query]) -> list[Interpretation]:
        analyzer = cast(Analyzer, make("analyze", retriever.analyzer))
        return interpretations(analyzer, queries, self.statistics.chunks, self.statistics.languages)

    def _query_terms(self, analyzer: Analyzer, queries: Sequence[Query]) -> tuple[IntArray, NDArray[np.int64]]:
        """The known terms of each query. A repeated word counts each time.

        The analyzer is the retriever's: retrievers that treat queries differently may share this index."""
        of = self._ids_by(analyzer)
        return _stream(list(chain.from_iterable(map(of, query_tokens(analyzer, query.text)))) for query in queries)

    def _ids_by(self, analyzer: Analyzer) -> Callable[[str], tuple[int, ...]]:
        """The numbers of a token's terms."""
        ids, terms = self._ids, self._own(analyzer).terms
        return self._remembered("ids", analyzer, lambda token: tuple(ids[term] for term in terms(token) if term in ids))

    def terms_by(self, analyzer: Analyzer) -> Callable[[str], tuple[str, ...]]:
        """The terms of a token."""
        terms = self._own(analyzer).terms  # not self: an index that refers to itself stays in memory after its reader
        return self._remembered("terms", analyzer, lambda token: tuple(terms(token)))

    def _own(self, analyzer: Analyzer) -> Analyzer:
        """The analyzer whose terms are in the index: its own, in the languages that are asked for."""
        return analyzer if isinstance(analyzer, Auto) else self.analyzer

    def _remembered(self, kind: str, analyzer: Analyzer, of: Callable[[str], Any]) -> Callable[[str], Any]:
        key = (kind, analyzer.languages if isinstance(analyzer, Auto) else ())
        return self._by_token.setdefault(key, lru_cache(_REMEMBERED)(of))

    @cached_property
    def _by_token(self) -> dict[tuple[str, tuple[str, ...]], Callable[[str], Any]]:
        return {}

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {term: i for i, term in enumerate(self.vocabulary)}

    @cached_property
    def _idf(self) -> FloatArray:
        count, _, df, _ = self.statistics
        return np.log1p((count - df + 0.5) / (df + 0.5)).astype(np.float32)

    def _gains_of(self, retriever: Saturation) -> FloatArray:
        """For this k1 and b: f(k1 + 1)/(f + k1(1 - b + b·length/average)) of each shape."""
        k1, b, tfs = retriever.k1, retriever.b, self.shape_tfs.astype(np.int64)
        norm = k1 * (1 - b + b * self.shape_lengths / self.statistics.average)
        return np.where(tfs > 0, tfs * (k1 + 1) / np.maximum(tfs + norm, 1), 0).astype(np.float32)

    def _gains(self, retriever: Saturation) -> tuple[FloatArray, FloatArray, FloatArray]:
        """For this k1 and b: the gain of each shape, the rows of the frequent terms, and the peak of each row."""
        key = retriever.k1, retriever.b
        known = self._known_gains.get(key)
        if known is None:
            gains = self._gains_of(retriever)
            frequent = np.flatnonzero(self._dense_of >= 0).astype(np.int32)
            self._use(frequent.tolist())
            rows = compiled().dense_rows(self.starts, self.docs, self.shapes, gains, frequent, len(self.lengths))
            known = self._known_gains.put(key, (gains, *rows))
        return known

    @cached_property
    def _dense_of(self) -> IntArray:
        """The row of each term in the table of frequent terms, or -1."""
        count, _, df, _ = self.statistics
        frequent = df * DENSE_SHARE > count
        return np.where(frequent, np.cumsum(frequent) - 1, -1).astype(np.int32)


def _stream(rows: Iterable[list[int]]) -> tuple[IntArray, NDArray[np.int64]]:
    """Concatenates rows; returns them with the offset at which each starts."""
    numbers = array("i")
    offsets = [0]
    for row in rows:
        numbers.fromlist(row)
        offsets.append(len(numbers))
    return np.array(numbers, dtype=np.int32), np.array(offsets, dtype=np.int64)


Longs = NDArray[np.int64]
_POSTINGS_AT_ONCE = 1 << 20
"""The postings that are looked at together."""


class JoinedPostings:
    def __init__(self, parts: Sequence[Part], folder: Path | None = None) -> None:
        """Joins parts; `folder` is where an index of the same parts was saved, if there is one."""
        earlier = [cast(Postings, part.index) for part in parts]
        self._division = Division([part.places for part in parts])
        alive = self._division.alive
        self._live = [
            _counted(posting, alive[i]) if folder is None else _read(folder / f"live-{i}.npy", posting)
            for i, posting in enumerate(earlier)
        ]
        lengths = sum(int(posting.lengths[alive[i]].sum(dtype=np.int64)) for i, posting in enumerate(earlier))
        average = max(1.0, lengths / max(1, len(self)))
        vocabularies = [posting.vocabulary for posting in earlier]
        df = _frequencies(vocabularies, self._live)
        spoken = languages_in(vocabularies, df)
        self.parts = [
            posting.among(TermStatistics(len(self), average, df[i], spoken)) for i, posting in enumerate(earlier)
        ]
        self.analyzer = earlier[0].analyzer

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
        return self.parts[0]._wording(
            retriever,
            queries,
            lambda term: any(part.occurs(term, mask) for part, mask in zip(self.parts, masks, strict=True)),
            lambda term: next(part.weight(term) for part in self.parts if part.knows(term)),
        )

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
    for at in range(0, len(part.docs), _POSTINGS_AT_ONCE):  # only a writer counts
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
