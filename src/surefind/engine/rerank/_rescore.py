"""Shared by rerankers that score each passage: which passages are scored, blending, and a cache of scores.

    score = (1 - blend) · minmax(score before) + blend · minmax(score of the model)

Both are scaled over the scored passages. If the usual range of a model's scores (`spread`) is known, its scores are not
stretched beyond that range, (score - lowest) / max(highest - lowest, spread): a model that sees little difference
between passages changes little. The model alone (`blend=1`) ignores the score of retrieval: docs/rerank.md shows what
that costs.

A passage that only together with another one answers the question looks irrelevant alone. With `second` above 0 the
model reads again, with the best passage beside the question; its score is then (1 - second) · first + second · second
reading, and the best passage stays first.

Builds the result of a reranker: the chunks it decided on come first, the others follow in their previous order.

A reranker drops nothing. Chunks that it did not read, or did not keep, follow with the scores -1, -2, … (or that far
below the lowest decided score): these scores are places, not judgments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from surefind.base.protocols import Passages, Services
from surefind.base.running import Workers
from surefind.base.spec import Stage, require
from surefind.base.types import PAD, Chunk, Floats, Query, Rankings, ScoreArray
from surefind.engine.inference.cross_encoder import title_of

Decided = Sequence[tuple[int, float]]
"""The chunks that a reranker decided on, with their scores; in any order."""


def reordered(rankings: Rankings, decided: Sequence[Decided], k: int, source: str) -> Rankings:
    """Returns for each query the decided chunks by score (ties by id), then the rest in its previous order, cut to k.

    A row for which nothing was decided stays unchanged, including its scores.
    """
    width = min(k, rankings.ids.shape[1])
    ids = np.full((len(rankings), width), PAD, np.int64)
    scores = np.full((len(rankings), width), -np.inf, rankings.scores.dtype)
    for i, pairs in enumerate(decided):
        numbers, before = rankings.row(i)
        head = np.array([number for number, _ in pairs], np.int64)
        values = np.array([score for _, score in pairs], scores.dtype)
        if len(head):
            best = np.lexsort((head, -values))
            rest = numbers[~np.isin(numbers, head)]
            below = min(0.0, float(values.min())) - np.arange(1, len(rest) + 1, dtype=scores.dtype)
            numbers, before = np.concatenate([head[best], rest]), np.concatenate([values[best], below])
        n = min(width, len(numbers))
        ids[i, :n], scores[i, :n] = numbers[:n], before[:n]
    return Rankings(ids, scores, source, "mixed")


_BESIDE = 700
"""Characters of a question and the passage beside it; a model reads about as much of them."""
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
    second: float = 0.0
    """The weight of a second reading, with the best passage beside the question; at 0 there is none."""

    @classmethod
    def of(cls, stage: Stage, top: int, keep: int, blend: float, spread: float = 0.0, second: float = 0.0) -> Blend:
        require(top > 0, stage, "top must be above 0")
        require(0 < keep <= top, stage, "keep must be from 1 to top")
        require(0 <= blend <= 1, stage, "blend must be from 0 to 1")
        require(spread >= 0, stage, "spread must not be negative")
        require(0 <= second <= 1, stage, "second must be from 0 to 1")
        return cls(top, keep, blend, spread, second)

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
        work = [partial(self._read, scorer, queries[i].text, passages[heads[i]], rankings.row(i)[1]) for i in todo]
        decided: list[Decided] = [[] for _ in queries]
        for i, scores in zip(todo, _each(work, workers), strict=True):
            best = np.lexsort((np.array(heads[i][: len(scores)]), -scores))[: self.keep].tolist()
            decided[i] = [(heads[i][j], float(scores[j])) for j in best]
        return reordered(rankings, decided, k, source)

    def _read(self, scorer: Scorer, query: str, passages: Sequence[Chunk], before: ScoreArray) -> Floats:
        """Returns the blended score of each passage that the model had time for."""
        seen = scorer(query, passages)
        blended = self._blended(seen, before)
        if not self.second or len(seen) < 2:
            return blended
        first = int(blended.argmax())
        others = [i for i in range(len(seen)) if i != first]
        again = np.array(seen)
        again[others] = scorer(beside(query, passages[first]), [passages[i] for i in others])
        blended = self._blended((1 - self.second) * seen + self.second * again, before)
        blended[first] = np.nextafter(blended.max(), np.inf)
        return blended

    def _blended(self, seen: Floats, before: ScoreArray) -> Floats:
        kept = min_max(before[: len(seen)].astype(np.float64))
        return (1 - self.blend) * kept + self.blend * min_max(seen, self.spread)


def beside(query: str, passage: Chunk) -> str:
    """A question with a passage beside it, for a second reading."""
    title = title_of(passage)
    return f"{query} {f'{title}: ' if title else ''}{passage.text}"[:_BESIDE]


def _each(work: Sequence[Callable[[], Floats]], workers: int) -> list[Floats]:
    """Runs all jobs and returns the results in order; the first error is raised."""
    if min(workers, len(work)) < 2:
        return [task() for task in work]
    with Workers(workers) as running:
        return list(running.map(lambda task: task(), work))


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
