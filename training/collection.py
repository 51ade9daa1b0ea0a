"""A packed collection with real questions, and nDCG@10 of its documents by dense vectors and by a hybrid with BM25.

The arithmetic is that of `bm25 + dense >> convex(alpha=…, missing=score)` in the engine: the first 100 passages of
each, all of them scored by both, each row of scores scaled from 0 to 1, and a document at the rank of its best passage.
BM25's scores are known for its first 1000 passages; a passage below them counts half of the lowest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tokens import Tokens, tokens_of

DEPTH, K = 100, 10
NONE = 65535
"""Fills the rows of BM25 that have fewer passages."""
LOWEST = -float("inf")
"""The score of a place that is empty."""


@dataclass
class Collection:
    name: str
    passages: Tokens
    queries: Tokens
    document: Tensor
    """The document of each passage."""
    gold: Tensor
    """For each question, the grade of each document."""
    lexical: Tensor
    """BM25's score of every passage for every question."""
    first: Tensor
    """BM25's first passages for every question, -1 at the end of a short list."""

    @classmethod
    def read(cls, file: Path, device: str) -> Collection:
        data = np.load(file)
        passages = tokens_of(data["passage_ids"], data["passage_lengths"], device)
        ids = data["bm25_ids"].astype(np.int64)
        there = ids < min(NONE, len(passages))
        scores = data["bm25_scores"] / 65535 * data["bm25_highest"][:, None]
        unknown = np.where(there.all(1) & (ids.shape[1] < len(passages)), scores[:, -1] / 2, 0)
        lexical = np.repeat(unknown[:, None], len(passages), 1)
        rows, columns = np.nonzero(there)
        lexical[rows, ids[rows, columns]] = scores[rows, columns]
        gold = np.zeros((len(ids), 1 + max(int(data["document"].max()), int(data["gold"][:, 1].max()))), np.float32)
        for q, document, grade in data["gold"].tolist():
            gold[q, document] = max(grade, 0)
        used = np.flatnonzero(gold.any(1))
        every = np.split(data["query_ids"], np.cumsum(data["query_lengths"].astype(np.int64))[:-1])
        query_ids = [every[q] for q in used.tolist()]
        first = np.where(there, ids, -1)[used, :DEPTH]
        made = (data["document"].astype(np.int64), gold[used], lexical[used].astype(np.float32), first)
        return cls(
            file.stem,
            passages,
            tokens_of(np.concatenate(query_ids), np.array([len(one) for one in query_ids]), device),
            *(torch.from_numpy(array).to(device) for array in made),
        )

    def dense(self, similarity: Tensor) -> np.ndarray:
        """nDCG@10 of every question by these similarities of questions and passages."""
        best = similarity.topk(min(DEPTH, similarity.size(1)), 1)
        return self.ndcg(best.indices, best.values)

    def hybrid(self, similarity: Tensor, alphas: Sequence[float]) -> dict[float, np.ndarray]:
        """nDCG@10 of every question for each weight of the similarities."""
        candidates, close, words = self._scored(similarity)
        return {alpha: self.ndcg(candidates, alpha * close + (1 - alpha) * words) for alpha in alphas}

    def fused(self, similarity: Tensor, alpha: float, depth: int) -> tuple[Tensor, Tensor]:
        """The first passages of every question by the hybrid, and their scores. -1 ends a short list."""
        candidates, close, words = self._scored(similarity)
        scores, order = torch.sort(alpha * close + (1 - alpha) * words, dim=1, descending=True, stable=True)
        ids = candidates.gather(1, order).masked_fill(scores == LOWEST, -1)
        return ids[:, :depth], scores[:, :depth]

    def ndcg(self, passages: Tensor, scores: Tensor) -> np.ndarray:
        """nDCG@10 of every question; a document has the rank of its best passage."""
        scores, order = torch.sort(scores, dim=1, descending=True, stable=True)
        there = (scores > LOWEST) & (passages.gather(1, order) >= 0)
        document = self.document[passages.gather(1, order).clamp(min=0)]
        same = (document[:, :, None] == document[:, None, :]).tril(-1) & there[:, None, :]
        new = there & ~same.any(2)
        rank = new.long().cumsum(1) - 1
        discount = 1 / torch.log2(torch.arange(2, K + 2, device=scores.device).float())
        gain = self.gold.gather(1, document) * discount[rank.clamp(0, K - 1)] * (new & (rank < K))
        best = self.gold.sort(1, descending=True).values[:, :K]
        return (gain.sum(1) / (best * discount[: best.size(1)]).sum(1)).cpu().numpy()

    def _scored(self, similarity: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The candidates of both retrievers, and their scores by each."""
        best = similarity.topk(min(DEPTH, similarity.size(1)), 1).indices
        candidates = torch.cat([self.first, best], 1).sort(1).values
        there = candidates >= 0
        there[:, 1:] &= candidates[:, 1:] != candidates[:, :-1]
        at = candidates.clamp(min=0)
        close, words = (minmax(scores.gather(1, at), there) for scores in (similarity, self.lexical))
        return candidates, close.masked_fill(~there, LOWEST), words.masked_fill(~there, LOWEST)


def minmax(scores: Tensor, there: Tensor, least: float = 1e-9) -> Tensor:
    """Scales each row so that its lowest score is 0 and its highest is 1; a range below `least` counts as `least`."""
    low = scores.masked_fill(~there, -LOWEST).amin(1, keepdim=True)
    high = scores.masked_fill(~there, LOWEST).amax(1, keepdim=True)
    return (scores - low) / (high - low).clamp(min=least)
