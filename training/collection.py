"""A packed collection with real questions, and nDCG@10 of its documents by dense vectors and by a hybrid with BM25.

The arithmetic is that of `bm25 + dense >> convex(alpha=…, missing=score)` in the engine: the first 100 passages of
each, all of them scored by both, each row of scores scaled from 0 to 1, and a document at the rank of its best passage.
BM25's scores are known for its first 1000 passages; a passage below them counts half of the lowest.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from measures import minmax, ndcg
from tokens import Tokens, tokens_of

DEPTH = 100
NONE = 65535
"""Fills the rows of BM25 that have fewer passages."""


@dataclass
class Collection:
    name: str
    passages: Tokens
    queries: Tokens
    document: np.ndarray
    """The document of each passage."""
    gold: list[dict[int, float]]
    """For each question, the grade of each relevant document."""
    lexical: np.ndarray
    """BM25's score of every passage for every question."""
    first: np.ndarray
    """BM25's first passages for every question, -1 at the end of a short list."""

    @classmethod
    def read(cls, file: Path, device: str, most: int | None = None) -> Collection:
        """`most`: read only so many questions and ten times as many passages, for a test."""
        data = np.load(file)
        lengths = data["passage_lengths"].astype(np.int64)[: most and 10 * most]
        passages = tokens_of(data["passage_ids"][: lengths.sum()], lengths, device)
        ids = data["bm25_ids"].astype(np.int64)
        there = ids < min(NONE, len(passages))
        scores = data["bm25_scores"] / 65535 * data["bm25_highest"][:, None]
        unknown = np.where(there.all(1) & (ids.shape[1] < len(passages)), scores[:, -1] / 2, 0)
        lexical = np.repeat(unknown[:, None], len(passages), 1)
        rows, columns = np.nonzero(there)
        lexical[rows, ids[rows, columns]] = scores[rows, columns]
        gold: list[dict[int, float]] = [{} for _ in ids]
        for q, document, grade in data["gold"].tolist():
            if grade > 0:
                gold[q][document] = grade
        used = [q for q, grades in enumerate(gold) if grades][:most]
        ends = np.cumsum(data["query_lengths"].astype(np.int64))
        every = np.split(data["query_ids"], ends[:-1])
        query_ids = [every[q] for q in used]
        return cls(
            file.stem,
            passages,
            tokens_of(np.concatenate(query_ids), np.array([len(one) for one in query_ids]), device),
            data["document"],
            [gold[q] for q in used],
            lexical[used],
            np.where(there, ids, -1)[used, :DEPTH],
        )

    def dense(self, similarity: np.ndarray) -> np.ndarray:
        """nDCG@10 of every question by these similarities of questions and passages."""
        return self.ndcg(_best(similarity))

    def hybrid(self, similarity: np.ndarray, alphas: tuple[float, ...]) -> dict[float, np.ndarray]:
        """nDCG@10 of every question for each weight of the similarities."""
        candidates, close, words = self._scored(similarity)
        return {alpha: self._ndcg(candidates, alpha * close + (1 - alpha) * words) for alpha in alphas}

    def fused(self, similarity: np.ndarray, alpha: float, depth: int) -> tuple[np.ndarray, np.ndarray]:
        """The first passages of every question by the hybrid, and their scores. -1 ends a short list."""
        candidates, close, words = self._scored(similarity)
        scores = alpha * close + (1 - alpha) * words
        order = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
        scores = np.take_along_axis(scores, order, 1)
        return np.where(np.isneginf(scores), -1, np.take_along_axis(candidates, order, 1)), scores

    def ndcg(self, passages: np.ndarray) -> np.ndarray:
        """nDCG@10 of every question for passages in order."""
        return self._ndcg(passages, None)

    def _scored(self, similarity: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The candidates of both retrievers, and their scores by each; -inf marks a place that is empty."""
        candidates = np.concatenate([self.first, _best(similarity)], axis=1)
        candidates.sort(axis=1)
        there = candidates >= 0
        there[:, 1:] &= candidates[:, 1:] != candidates[:, :-1]
        at = np.maximum(candidates, 0)
        close = minmax(np.take_along_axis(similarity, at, 1), there)
        words = minmax(np.take_along_axis(self.lexical, at, 1), there)
        return candidates, np.where(there, close, -np.inf), np.where(there, words, -np.inf)

    def _ndcg(self, passages: np.ndarray, scores: np.ndarray | None) -> np.ndarray:
        """Of documents, each at the rank of its first passage. Without scores, the passages are in order."""
        if scores is not None:
            order = np.argsort(-scores, axis=1, kind="stable")
            passages = np.where(
                np.isneginf(np.take_along_axis(scores, order, 1)), -1, np.take_along_axis(passages, order, 1)
            )
        ranked = [list(dict.fromkeys(self.document[row[row >= 0]].tolist())) for row in passages]
        return ndcg(ranked, self.gold)


def _best(similarity: np.ndarray) -> np.ndarray:
    """The first passages of every question by similarity, in order."""
    depth = min(DEPTH, similarity.shape[1])
    some = np.argpartition(-similarity, depth - 1, axis=1)[:, :depth]
    order = np.argsort(-np.take_along_axis(similarity, some, 1), axis=1, kind="stable")
    return np.take_along_axis(some, order, 1)
