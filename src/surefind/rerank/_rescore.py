"""Shared by rerankers that score each passage: which passages are scored, blending, and a cache of scores.

    score = (1 - blend) · minmax(score before) + blend · minmax(score of the model)

Both are scaled over the scored passages. If the usual range of a model's scores (`spread`) is known, its scores are not
stretched beyond that range, (score - lowest) / max(highest - lowest, spread): a model that sees little difference
between passages changes little. The model alone (`blend=1`) ignores the score of retrieval: docs/rerank.md shows what
that costs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from surefind.inference.pairs import title_of
from surefind.protocols import Passages, Services
from surefind.rerank._order import Decided, reordered
from surefind.spec import Stage, require
from surefind.types import Chunk, Floats, Query, Rankings, ScoreArray
from surefind.workers import Workers

Scorer = Callable[[str, Sequence[Chunk]], Floats]
"""(query, passages) -> a score for each passage, or only for the first n if there was no time for more."""


class Model(Protocol):
    """Scores passages for a query, each independently of the others."""

    @property
    def identity(self) -> str:
        """Changes whenever a score would."""
        ...

    def score(self, query: str, passages: Sequence[Chunk]) -> Floats: ...


@dataclass(frozen=True)
class Blend:
    """How many passages are scored (`top`), how many of these come first (`keep`), the model's weight (`blend`)."""

    top: int
    keep: int
    blend: float
    spread: float = 0.0
    """The usual range of the model's scores; 0 if unknown."""

    @classmethod
    def of(cls, stage: Stage, top: int, keep: int, blend: float, spread: float = 0.0) -> Blend:
        require(top > 0, stage, "top must be above 0")
        require(0 < keep <= top, stage, "keep must be from 1 to top")
        require(0 <= blend <= 1, stage, "blend must be from 0 to 1")
        require(spread >= 0, stage, "spread must not be negative")
        return cls(top, keep, blend, spread)

    def rerank(
        self,
        queries: Sequence[Query],
        rankings: Rankings,
        passages: Passages,
        k: int,
        source: str,
        scorer: Scorer,
        workers: int = 1,
    ) -> Rankings:
        """Reranks each query; `workers` queries are scored at once, for services that take parallel requests."""
        heads = [rankings.row(i)[0][: self.top].tolist() for i in range(len(queries))]
        todo = [i for i, head in enumerate(heads) if head]
        # Passages are fetched here, not by the workers: a catalogue has one connection.
        work = [partial(scorer, queries[i].text, passages[heads[i]]) for i in todo]
        decided: list[Decided] = [[] for _ in queries]
        for i, found in zip(todo, _each(work, workers), strict=True):
            decided[i] = self._decide(heads[i], rankings.row(i)[1], found)
        return reordered(rankings, decided, k, source)

    def _decide(self, head: list[int], before: ScoreArray, found: Floats) -> Decided:
        n = len(found)
        seen = min_max(found, self.spread)
        blended = (1 - self.blend) * min_max(before[:n].astype(np.float64)) + self.blend * seen
        best = np.lexsort((np.array(head[:n]), -blended))[: self.keep].tolist()
        return [(head[j], float(blended[j])) for j in best]


def _each(work: Sequence[Callable[[], Floats]], workers: int) -> list[Floats]:
    """Runs all jobs and returns the results in order; the first error is raised."""
    if min(workers, len(work)) < 2:
        return [one() for one in work]
    with Workers(workers) as running:
        return list(running.map(lambda one: one(), work))


def min_max(scores: Floats, least: float = 0.0) -> Floats:
    """Scales scores from 0 (lowest) to 1 (highest, if it is `least` above); equal scores are all 1, as in fusion."""
    if not len(scores):
        return scores
    spread = scores.max() - scores.min()
    return (scores - scores.min()) / max(spread, least) if spread > 0 else np.ones_like(scores)


def cached_scorer(model: Model, services: Services) -> Scorer:
    """Puts a model behind the cache of scores: each pair of texts is scored once, for all configurations.

    For benchmarks. A single query is a user's search and goes straight to the model, so that a reader never writes.
    """
    cache = services.scores
    if cache is None:
        return model.score

    def score(query: str, passages: Sequence[Chunk]) -> Floats:
        keys = [_key(model.identity, query, chunk) for chunk in passages]
        known = cache.get(list(dict.fromkeys(keys)))
        missing = {key: chunk for key, chunk in zip(keys, passages, strict=True) if key not in known}
        if missing:
            new = model.score(query, list(missing.values()))
            rows = [(key, value.tobytes()) for key, value in zip(missing, np.asarray(new, np.float64), strict=True)]
            cache.put(rows)
            known.update(rows)
        return np.frombuffer(b"".join(known[key] for key in keys), np.float64)

    return score


def _key(identity: str, query: str, chunk: Chunk) -> bytes:
    parts = (identity, query, title_of(chunk), chunk.text)
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=16).digest()
