"""Runs rerankers over an exam, in batches; results are cached by their input, and failures are counted.

If a reranker fails, the ranking before it is kept, as in a search. But a benchmark reports for how many questions this
happened, and stops at once if the reranker is not set up (a missing package, model or key): a report row that silently
shows another configuration's scores would be wrong.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from surefind.base.abilities import declared, name_of
from surefind.base.errors import BudgetError, MissingPartError, SpecError, SurefindError, UsageError
from surefind.base.protocols import Passages, Progress, Reranker, Services
from surefind.base.running.notes import collecting
from surefind.base.types import PAD, IdArray, Query, Rankings
from surefind.lab.bench.cache import RunCache

_BATCH, _SLOW_BATCH = 64, 8
"""Questions per batch, between two reports of progress: many for a reranker that calls a service, which answers in
parallel; few for one that computes on this machine."""
_GIVE_UP = 2
"""After this many failed batches in a row, the remaining batches are not tried."""
_TRIED = 100
"""Candidates given to a reranker when its time is estimated."""
_STOP = (MissingPartError, SpecError, UsageError, BudgetError)
"""Errors that end the benchmark instead of counting as a failed batch."""


@dataclass(frozen=True)
class Step:
    """The rankings before and after one reranker of one configuration."""

    name: str
    before: Rankings
    after: Rankings
    fell_back: int = 0
    """Number of questions that kept the ranking before because the stage failed."""
    why: str = ""
    """The message of the first failure."""
    stood_in: int = 0
    """Number of calls answered by the fallback model instead of the stage's own."""


class Reranking:
    """Runs rerankers over a whole exam."""

    def __init__(
        self, passages: Passages, services: Services, cache: RunCache, corpus: str, exam: str, behind: str = ""
    ) -> None:
        self._passages = passages
        self._behind = behind
        self._services = services
        self._cache = cache
        self._scope = (corpus, exam)

    def key(self, reranker: Reranker, given: Rankings, k: int) -> str:
        digest = hashlib.blake2b(given.ids.tobytes() + given.scores.tobytes(), digest_size=16).hexdigest()
        # The result of a reranker that looks beyond its ranking also depends on the pipeline before it.
        behind = self._behind if declared(reranker).reaches else ""
        return self._cache.key(
            "rerank", *self._scope, reranker, declared(reranker).stamp(self._services), digest, k, behind
        )

    def seconds(self, reranker: Reranker, query: Query, ids: IdArray) -> float:
        """Seconds per question, measured on passages from the whole collection; 0 if the reranker is not set up."""
        tried = ids[np.unique(np.linspace(0, len(ids) - 1, min(len(ids), _TRIED)).astype(np.int64))]
        given = Rankings(tried[None], -np.arange(len(tried), dtype=np.float32)[None])
        try:
            for _ in range(2):  # only the second is timed: the first loads the models
                started = time.perf_counter()
                reranker.rerank([query], given, self._passages, 10, self._services)
        except SurefindError:
            return 0.0
        return time.perf_counter() - started

    def run(
        self,
        reranker: Reranker,
        queries: Sequence[Query],
        given: Rankings,
        k: int,
        progress: Progress,
    ) -> Step:
        """Reranks `given` for all queries."""
        name = name_of(reranker)
        key = self.key(reranker, given, k)
        known = self._cache.rankings(key)
        if known is not None:
            return Step(name, given, known)
        size = _SLOW_BATCH if declared(reranker).runs_here else _BATCH
        parts: list[Rankings] = []
        failed, in_a_row, why, stood_in = 0, 0, "", 0
        for at in range(0, len(queries), size):
            progress(at, len(queries))
            rows = _rows(given, at, at + size)
            try:
                if in_a_row >= _GIVE_UP:
                    raise SurefindError(why)
                with collecting() as collected:
                    parts.append(reranker.rerank(queries[at : at + size], rows, self._passages, k, self._services))
                self._services.meter.check()
                in_a_row = 0
                if (
                    collected.without or collected.stood_in
                ):  # no failure, but some answers are missing or the fallback's
                    failed, stood_in = failed + collected.without, stood_in + collected.stood_in
                    why = why or collected.text
            except _STOP:
                raise
            except SurefindError as error:
                parts.append(rows)
                failed, in_a_row, why = failed + len(rows), in_a_row + 1, why or str(error)
        progress(len(queries), len(queries))
        after = stacked(parts, k)
        if not (failed or stood_in):
            self._cache.put_rankings(key, after)
        return Step(name, given, after, failed, why, stood_in)


def step_problems(names: Sequence[str], steps: Sequence[Sequence[Step]]) -> list[str]:
    """Says for which rerankers the model failed, or another model stood in."""
    every = [(name, step) for name, made in zip(names, steps, strict=True) for step in made]
    failed = [
        f"{name}: {step.name} failed for {step.fell_back} questions, which kept the ranking before it ({step.why})"
        for name, step in every
        if step.fell_back
    ]
    others = [
        f"{name}: {step.name} got {step.stood_in} answers from the fallback, not from its own model ({step.why})"
        for name, step in every
        if step.stood_in
    ]
    return failed + others


def _rows(rankings: Rankings, start: int, end: int) -> Rankings:
    return replace(rankings, ids=rankings.ids[start:end], scores=rankings.scores[start:end])


def stacked(parts: Sequence[Rankings], k: int) -> Rankings:
    """Joins the rankings of several batches, cut or padded to the width of the widest, and to k at most."""
    width = min(k, max(part.ids.shape[1] for part in parts))
    shape = (sum(len(part) for part in parts), width)
    precision = np.result_type(*(part.scores for part in parts))
    ids, scores = np.full(shape, PAD, np.int64), np.full(shape, -np.inf, precision)
    at = 0
    for part in parts:
        n = min(width, part.ids.shape[1])
        ids[at : at + len(part), :n] = part.ids[:, :n]
        scores[at : at + len(part), :n] = part.scores[:, :n]
        at += len(part)
    return replace(parts[-1], ids=ids, scores=scores)
