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
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numba import njit
from numpy.typing import NDArray

from surefind.base.text.scripts import words
from surefind.base.types import Rankings

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
