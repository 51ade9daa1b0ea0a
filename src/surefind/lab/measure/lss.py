"""The training targets of learned fusion: the relevance of a passage (LSS), and the α that reproduces it best (α*).

    LSS(c, a) = |LCS(words(c), words(a))| / |words(a)|               longest subsequence similarity

    α*(q) = Σ_d (LSS(d) - other(d)) · (dense(d) - other(d)) / Σ_d (dense(d) - other(d))²       clipped to [0, 1]

over the union of both rankings' ten best. Scores are scaled as in `tm2c2`; a passage that is not in a ranking's ten
best scores 0 there. If both rankings give every passage the same score, any α is as good, and α* is ½. (Equations 17-19
of the agentic-knowledge-base study.) Supporting evidence of a two-hop question is not an answer. If the gold is a whole
document, its passages get the judgment's grade divided by the question's greatest grade.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from surefind.base.text.words import words
from surefind.base.types import Floats, Rankings
from surefind.engine.fuse.support.features import TOP_RANKS, alpha_at
from surefind.engine.fuse.support.join import from_floor
from surefind.engine.store.backend import Spans
from surefind.lab.exam.model import ExamQuery

Words = NDArray[np.int32]
UNDECIDED = 0.5
"""α* of a question for which any α is as good."""


def alpha_star(dense: Floats, other: Floats, labels: Floats) -> float:
    """α* of one query in closed form, from both rankings' scores and the labels of the passages of the union."""
    difference = dense - other
    below = float(difference @ difference)
    if below <= 0:
        return UNDECIDED
    return float(np.clip((labels - other) @ difference / below, 0.0, 1.0))


class Labeller:
    """Computes the relevance of passages to the questions of an exam."""

    def __init__(self, queries: Sequence[ExamQuery], spans: Spans, documents: Mapping[str, str]) -> None:
        self._queries = queries
        self._spans = spans
        self._documents = documents
        self._ids: dict[str, int] = {}
        self._words = lru_cache(maxsize=100_000)(self._read)

    def of(self, queries: Sequence[ExamQuery]) -> Labeller:
        """A labeller for other questions about the same documents."""
        return Labeller(queries, self._spans, self._documents)

    def alphas(self, rankings: Sequence[Rankings]) -> Floats:
        """α* of each question, for two rankings."""
        at = alpha_at([ranking.signal for ranking in rankings])
        pair = [_top(rankings[i]) for i in (at, 1 - at)]
        scaled = [from_floor(ranking) for ranking in pair]
        stars = []
        for q in range(len(self._queries)):
            dense, other = (
                dict(zip(ranking.row(q)[0].tolist(), scores[q].tolist(), strict=False))
                for ranking, scores in zip(pair, scaled, strict=True)
            )
            union = sorted({*dense, *other})
            left, right = (np.array([side.get(chunk_id, 0.0) for chunk_id in union]) for side in (dense, other))
            stars.append(alpha_star(left, right, np.array([self.label(q, chunk_id) for chunk_id in union])))
        return np.array(stars)

    def label(self, q: int, chunk_id: int) -> float:
        judgments = [j for j in self._queries[q].judgments if j.is_answer]
        most = max((j.grade for j in judgments), default=1)
        document, at = self._spans.document(chunk_id), self._spans.position(chunk_id)
        best = 0.0
        for j in judgments:
            if j.start is not None and j.end is not None:
                start, end = int(self._spans.own_starts[at]), int(self._spans.own_ends[at])
                best = max(
                    best, _similarity(self._words(document, start, end), self._words(j.document, j.start, j.end))
                )
            elif document == j.document:
                best = max(best, j.grade / most)
        return best

    def _read(self, document: str, start: int, end: int) -> Words:
        return _numbers(self._documents[document][start:end], self._ids)


def _top(ranking: Rankings) -> Rankings:
    return replace(ranking, ids=ranking.ids[:, :TOP_RANKS], scores=ranking.scores[:, :TOP_RANKS])


def _numbers(text: str, ids: dict[str, int]) -> Words:
    return np.array([ids.setdefault(word, len(ids)) for word in words(text)], dtype=np.int32)


def _similarity(passage: Words, answer: Words) -> float:
    from surefind.lab.measure.spans import _lcs

    return float(_lcs(passage, answer)) / max(1, len(answer))
