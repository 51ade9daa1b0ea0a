"""The eleven gold-span measures of the agentic-knowledge-base study (2025, section 4.3), on the top k chunks.

For an answer a, chunks c_1 … c_k and words(·), the lower-cased words:

    coverage(c) = |LCS(words(c), words(a))| / |words(a)|      overlap(c) = 2·|LCS(words(c), words(s))| / (|c| + |s|)

    T1EM  c_1 contains the answer, letter for letter   T5EM  one of c_1 … c_5 does (of c_1 … c_k for another k)
    T1C   coverage of c_1                              BC    greatest coverage      AC  mean coverage
    MC    coverage of all chunks joined in rank order  MRR   1 / rank of the first chunk that contains it
    AT1S  score of c_1                                 T1O   overlap of c_1        BO  greatest  AO  mean

LCS is the true longest common subsequence of words. For a question with several answers or segments, the best counts
(for AO the mean). Supporting evidence of a two-hop question is not an answer. The segment s in overlap(c) is the
passage that the question was written from; if the exam does not have it, s is the answer. White space is folded before
"contains" is tested.

Measures how much of the gold text the top k passages contain, and how much other text, in characters.

For gold spans G and passages c_1 … c_k, with |·| a number of characters:

    shared = |G ∩ (c_1 ∪ … ∪ c_k)|        SpanR = shared / |G|        SpanP = shared / Σ|c_i|
    IoU = shared / (Σ|c_i| + |G| - shared)

The token recall, precision and IoU of "Evaluating Chunking Strategies for Retrieval" (Smith & Troynikov, Chroma 2024),
on characters. Text in two passages is read twice, so it counts twice in Σ.

Measures what `surefind ask` quotes: whether a quote has the answer, and what its confidence says.

For a quote q of a document, and gold spans g of an exam, *right*: some g of the same document stands in q, or at least
half of the characters of q lie inside g. The first is for gold that is shorter than a quote, the second for longer.
Texts are compared by their words: case, markup, punctuation and white space do not count.

The n questions in the order of their confidence, the surest first; e_i of the first i are wrong:

    risk    e_i / i at coverage i / n
    AURC    (1/n) · Σ_i e_i / i: the area under the curve of risks; 0 is best
            (Geifman, Uziel and El-Yaniv, Bias-Reduced Uncertainty Estimation, 2019)
    half    1 - e_i / i for i = ⌈n/2⌉: how often the surer half is right

Questions that are equally sure share their mean, since no order of them is the right one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numba import njit
from numpy.typing import NDArray

from surefind.base.text.markup import plain
from surefind.base.text.words import words
from surefind.base.types import BoolArray, Floats, Rankings
from surefind.lab.exam.model import ExamQuery, Judgment
from surefind.lab.measure.ranks import ChunkSpans

Words = NDArray[np.int32]


@njit(cache=True, nogil=True)
def _lcs(long: Words, short: Words) -> int:
    """Bit-parallel longest common subsequence (Hyyrö 2004): one bit per word of `short`, 64 at a time.

    The positions of each distinct word of `short` are stored as bits, so a word of `long` costs a binary search and one
    addition per 64 words of `short`.
    """
    m = len(short)
    blocks = (m + 63) // 64
    distinct = np.unique(short)
    places = np.zeros((len(distinct), blocks), np.uint64)
    for j in range(m):
        places[np.searchsorted(distinct, short[j]), j // 64] |= np.uint64(1) << np.uint64(j % 64)
    state = np.empty(blocks, np.uint64)
    state[:] = np.uint64(0xFFFFFFFFFFFFFFFF)
    for i in range(len(long)):
        at = np.searchsorted(distinct, long[i])
        if at == len(distinct) or distinct[at] != long[i]:
            continue
        carry = np.uint64(0)
        for b in range(blocks):
            v = state[b]
            u = v & places[at, b]
            total = v + u
            overflow = np.uint64(1) if total < v else np.uint64(0)
            with_carry = total + carry
            if with_carry < total:
                overflow = np.uint64(1)
            state[b] = with_carry | (v - u)
            carry = overflow
    length = 0
    for j in range(m):
        if not (state[j // 64] >> np.uint64(j % 64)) & np.uint64(1):
            length += 1
    return length


class SpanJudge:
    """Computes the eleven measures for many configurations; each (question, chunk) pair is compared once."""

    def __init__(
        self,
        answers: Sequence[Sequence[str]],
        chunk_text: Callable[[int], str],
        segments: Sequence[Sequence[str]] | None = None,
    ) -> None:
        """`answers[q]` are the texts of query q's answers, `segments[q]` of its segments; without segments, the answers
        take their place."""
        self._ids: dict[str, int] = {}
        self._answers = [[(self._fold(text), self._words(text)) for text in texts] for texts in answers]
        self._segments = [
            [self._words(text) for text in (own or texts)]
            for texts, own in zip(answers, segments or [()] * len(answers), strict=True)
        ]
        self._chunk_text = chunk_text
        self._chunk = lru_cache(maxsize=200_000)(self._read_chunk)
        self._pair = lru_cache(maxsize=2_000_000)(self._compare)

    def scores(self, rankings: Rankings, k: int) -> dict[str, NDArray[np.float64]]:
        names = ("T1EM", "T5EM", "T1C", "BC", "AC", "MC", "MRR", "AT1S", "T1O", "BO", "AO")
        table = {name: np.zeros(len(self._answers)) for name in names}
        for q in range(len(self._answers)):
            ordinals, scores = rankings.row(q)
            if not len(ordinals) or not self._answers[q]:
                continue
            top = ordinals[:k].tolist()
            pairs = [self._pair(q, ordinal) for ordinal in top]
            exact = [contains for contains, *_ in pairs]
            cover = [coverage for _, coverage, *_ in pairs]
            best = [greatest for *_, greatest, _ in pairs]
            table["T1EM"][q] = exact[0]
            table["T5EM"][q] = max(exact)
            table["T1C"][q], table["BC"][q], table["AC"][q] = cover[0], max(cover), float(np.mean(cover))
            table["MC"][q] = self._joined(q, top)
            table["MRR"][q] = 1 / (exact.index(1.0) + 1) if 1.0 in exact else 0.0
            table["AT1S"][q] = scores[0]
            table["T1O"][q], table["BO"][q] = best[0], max(best)
            table["AO"][q] = float(np.mean([mean for *_, mean in pairs]))
        return table

    def _compare(self, q: int, ordinal: int) -> tuple[float, float, float, float]:
        """Whether one chunk contains the answer, its coverage, and its greatest and mean overlap."""
        text, words = self._chunk(ordinal)
        contains = any(answer in text for answer, _ in self._answers[q])
        common = [(_lcs(words, answer), len(answer)) for _, answer in self._answers[q]]
        coverage = max(lcs / max(1, n) for lcs, n in common)
        overlaps = [2 * _lcs(words, segment) / max(1, len(segment) + len(words)) for segment in self._segments[q]]
        return float(contains), coverage, max(overlaps), float(np.mean(overlaps))

    def _joined(self, q: int, ordinals: Sequence[int]) -> float:
        words = np.concatenate([self._chunk(ordinal)[1] for ordinal in ordinals])
        return max(_lcs(words, answer) / max(1, len(answer)) for _, answer in self._answers[q])

    def _read_chunk(self, ordinal: int) -> tuple[str, Words]:
        text = self._chunk_text(ordinal)
        return self._fold(text), self._words(text)

    def _words(self, text: str) -> Words:
        ids = self._ids
        return np.array([ids.setdefault(w, len(ids)) for w in words(text)], dtype=np.int32)

    @staticmethod
    def _fold(text: str) -> str:
        return " ".join(text.split())


Span = tuple[int, int]


class OverlapJudge:
    def __init__(self, queries: Sequence[ExamQuery], places: ChunkSpans) -> None:
        self._places = places
        self._gold = [self._spans(query) for query in queries]

    def scores(self, rankings: Rankings, k: int) -> dict[str, NDArray[np.float64]]:
        table = {name: np.zeros(len(self._gold)) for name in ("SpanR", "SpanP", "IoU")}
        rankings = self._places.located(rankings)
        for q, gold in enumerate(self._gold):
            top = rankings.row(q)[0][:k].tolist()
            wanted = sum(end - start for spans in gold.values() for start, end in spans)
            if not top or not wanted:
                continue
            read = defaultdict(list)
            for ordinal in top:
                read[int(self._places.documents[ordinal])].append(self._span(ordinal))
            shared = sum(_shared(union(read[document]), spans) for document, spans in gold.items() if document in read)
            length = sum(end - start for spans in read.values() for start, end in spans)
            table["SpanR"][q] = shared / wanted
            table["SpanP"][q] = shared / length
            table["IoU"][q] = shared / (length + wanted - shared)
        return table

    def _span(self, ordinal: int) -> Span:
        return int(self._places.starts[ordinal]), int(self._places.ends[ordinal])

    def _spans(self, query: ExamQuery) -> dict[int, list[Span]]:
        """Document number -> its gold spans, overlapping ones joined. A document that is wholly gold is one span."""
        found: dict[int, list[Span]] = defaultdict(list)
        for j in query.judgments:
            number = self._places.numbers.get(j.document)
            if j.grade > 0 and number is not None:
                whole = self._places.ends[self._places.documents == number].max(initial=0) if j.end is None else j.end
                found[number].append((j.start or 0, int(whole)))
        return {number: union(spans) for number, spans in found.items()}


def union(spans: Sequence[Span]) -> list[Span]:
    """Joins spans that overlap or touch; returns them in order."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


def _shared(left: Sequence[Span], right: Sequence[Span]) -> int:
    return sum(max(0, min(b, d) - max(a, c)) for a, b in left for c, d in right)


MIN_INSIDE = 0.5
"""The share of a quote that lies inside longer gold, at least."""


def holds(text: str, document: str, gold: Judgment | None, gold_text: str) -> bool:
    """Returns whether a text of a document has the words of the gold, in its order."""
    wanted = _words_of(gold_text)
    return bool(wanted) and (gold is None or gold.document == document) and f" {wanted} " in f" {_words_of(text)} "


def is_right(quote: str, span: Span | None, document: str, gold: Judgment, gold_text: str) -> bool:
    """Returns whether a quote of a document has the answer. `span` is its place there, if it is known; `gold_text` is
    the text of the gold span."""
    if holds(quote, document, gold, gold_text):
        return True
    if span is None or gold.start is None or gold.end is None or document != gold.document:
        return False
    start, end = span
    return max(0, min(end, gold.end) - max(start, gold.start)) >= MIN_INSIDE * max(1, end - start)


@lru_cache(maxsize=5_000)
def _words_of(text: str) -> str:
    """The words of a text, without its markup, so that a quote without marks equals the document with them."""
    return " ".join(words("\n".join(map(plain, text.split("\n"))).lower()))


def risks(wrong: Floats) -> Floats:
    """The risk at each coverage 1/n, 2/n … 1, of questions in the order of `by_confidence`."""
    return np.cumsum(wrong) / np.arange(1, len(wrong) + 1)


def aurc(wrong: Floats) -> float:
    """The area under the curve of risks."""
    return float(risks(wrong).mean())


def precision_at_half(wrong: Floats) -> float:
    """How often the surer half is right."""
    return float(1 - wrong[: (len(wrong) + 1) // 2].mean())


def by_confidence(confidence: Floats, right: BoolArray) -> tuple[NDArray[np.int64], Floats]:
    """Returns the places of the questions, the surest first, and in this order how wrong each is: 0 or 1, or the mean
    of those that are equally sure."""
    order = np.argsort(-confidence, kind="stable")
    _, group, sizes = np.unique(confidence, return_inverse=True, return_counts=True)
    wrong = np.bincount(group, weights=~right) / sizes
    return order, wrong[group][order]
