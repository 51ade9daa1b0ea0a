"""`isr(power=2)`: inverse square rank fusion.

    score(d) = n(d) · Σ_i 1 / rank_i(d)^power      n(d): the number of rankings that contain d

Mourão, Martins and Magalhães, Inverse Square Rank Fusion for Multimodal Search, CBMI 2014.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefind import PAD, Rankings, Stage, require


@dataclass(frozen=True)
class ISR(Stage):
    kind: ClassVar[str] = "fuse"
    name: ClassVar[str] = "isr"

    power: float = 2.0

    def __post_init__(self) -> None:
        require(self.power > 0, self, "power must be above 0")

    def fuse(self, rankings: Sequence[Rankings], k: int) -> Rankings:
        queries = len(rankings[0])
        ids = np.full((queries, k), PAD, np.int64)
        scores = np.full((queries, k), -np.inf)
        for i in range(queries):
            best = self._best([ranking.row(i)[0].tolist() for ranking in rankings])[:k]
            for place, (chunk_id, score) in enumerate(best):
                ids[i, place], scores[i, place] = chunk_id, score
        return Rankings(ids, scores, source=self.name)

    def _best(self, rows: Sequence[Sequence[int]]) -> list[tuple[int, float]]:
        """The ids of one query with their scores, best first; equal scores in order of id."""
        gains: dict[int, list[float]] = {}
        for row in rows:
            for rank, chunk_id in enumerate(row, start=1):
                gains.setdefault(chunk_id, []).append(1 / rank**self.power)
        scored = [(chunk_id, len(found) * sum(found)) for chunk_id, found in gains.items()]
        return sorted(scored, key=lambda pair: (-pair[1], pair[0]))
