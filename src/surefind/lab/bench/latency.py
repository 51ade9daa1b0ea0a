"""Measures time and cost per query, stage by stage, as in a warm server that answers one query at a time.

A stage that several pipelines share is timed once; a pipeline's time for a query is the sum over its stages. A cached
answer of a language model counts with its original time and price.

Other work on the machine disturbs timings for seconds at a time, so the stages are timed in several rounds, all stages
in each round. The lowest and the highest median of a round are the interval in which a pipeline's median lies.

How long a search takes with a configuration, and what its language models cost: part of every report.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from surefind.base.abilities import declared, name_of
from surefind.base.protocols import Passages, Reranker, Retriever, Services
from surefind.base.running import CollectedNotes, collecting
from surefind.base.types import Query, Rankings
from surefind.engine.search.pipeline import Pipeline, PipelinePassages, Reading
from surefind.lab.bench.plan import Contender


@dataclass(frozen=True)
class StageTiming:
    """The milliseconds of one stage."""

    p50: float
    p95: float
    mean: float
    calls: float | None = None
    """Calls to language models per query; None if the stage makes none."""
    dollars: float | None = None
    """The price of these calls per query."""


@dataclass(frozen=True)
class Timing:
    """The milliseconds of a search."""

    p50: float
    p95: float
    mean: float
    p50_low: float
    """The median lies between `p50_low` and `p50_high`, whatever else the machine does."""
    p50_high: float
    stages: Mapping[str, StageTiming]

    @property
    def calls(self) -> float:
        """Calls to language models per query."""
        return float(sum(stage.calls or 0.0 for stage in self.stages.values()))

    @property
    def cost_per_1k(self) -> float:
        """Dollars per 1,000 queries."""
        return float(1000 * sum(stage.dollars or 0.0 for stage in self.stages.values()))


SAMPLE = 30
"""Queries that each stage is timed on, at most."""
_WARM_UP_QUERIES = 3
"""Untimed queries that warm a stage up before it is timed."""
_WARM_UP_SECONDS = 1.0
"""Seconds after which the warm-up ends, even with fewer queries."""
_MIN_TIMED, _MAX_TIMING_SECONDS = 8, 10.0
"""A stage is timed on at least 8 queries; after these, timing stops once it has taken 10 seconds."""
_ROUNDS = 3
_REPEATED = 2.0
"""A stage that took longer than this many seconds is not timed again in later rounds."""


def measure_latency(contenders: Sequence[Contender], queries: Sequence[Query], reading: Reading) -> list[Timing]:
    """For each contender, p50 and p95 in milliseconds: in total and by stage."""
    step = max(1, len(queries) // SAMPLE)
    sample = queries[::step][:SAMPLE]
    stopwatch = _Stopwatch(len(sample))
    pipelines = [contender.pipeline for contender in contenders]
    for _ in range(_ROUNDS):
        paths = [_timed(pipeline, sample, stopwatch, reading) for pipeline in pipelines]
        stopwatch.next_round()
    return [stopwatch.summary(stages) for stages in paths]


Stages = Sequence[tuple[str, str]]
"""The stages of a pipeline in order: name, and key in the stopwatch."""


def _timed(pipeline: Pipeline, sample: Sequence[Query], stopwatch: _Stopwatch, reading: Reading) -> Stages:
    """Times each stage of a pipeline, unless this round has timed it already."""
    keys = []
    lists = []
    for retriever in pipeline.retrieve:
        key = f"{retriever} @{pipeline.depth}"
        keys.append((retriever.name, key))
        lists.append(stopwatch.time(key, partial(_searched, reading, retriever, sample, pipeline.depth)))
    best, path = lists[0], " + ".join(key for _, key in keys)
    if pipeline.fuse is not None:
        path = f"{path} >> {pipeline.fuse}"
        # Scoring and predicting reuse the query vectors of the search just before them.
        reuses = pipeline.completes or declared(pipeline.fuse).reads_queries
        again = partial(_search_again, pipeline, sample, reading) if reuses else None
        work = partial(_joined, pipeline, sample, lists, reading)
        best = stopwatch.time(path, work, again, reach=min(map(len, lists)))
        keys.append((name_of(pipeline.fuse), path))
    source = PipelinePassages(pipeline, reading)
    for reranker in pipeline.rerank:
        path = f"{path} >> {reranker}"
        best = stopwatch.time(
            path, partial(_reranked, reranker, sample, best, source, reading.services), reach=len(best)
        )
        keys.append((name_of(reranker), path))
    return keys


class _Stopwatch:
    """The times of stages by key, in rounds."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._rounds: dict[str, list[list[float]]] = {}
        self._spent: dict[str, list[CollectedNotes]] = {}
        self._rankings: dict[str, list[Rankings]] = {}
        self._done: set[str] = set()

    def time(
        self,
        key: str,
        work: Callable[[int], Rankings],
        before: Callable[[int], object] | None = None,
        reach: int | None = None,
    ) -> list[Rankings]:
        """Times `work` on the sample, unless this round has timed `key` already, and returns its rankings.

        `before` runs untimed before each query and restores the state that the stage has in a search. `reach` is the
        number of queries that all stages before it were timed on; one that takes seconds per query is timed on fewer.
        """
        if key in self._done:
            return self._rankings[key]
        self._done.add(key)
        if key not in self._rankings:
            self._warm_up(work, self._size if reach is None else reach)
            self._rounds[key] = []
        elif sum(map(sum, self._rounds[key])) > _REPEATED * 1000:
            return self._rankings[key]
        times: list[float] = []
        self._rankings[key], self._spent[key] = [], []
        begun = time.perf_counter()
        for i in range(self._size if reach is None else reach):
            if i >= _MIN_TIMED and time.perf_counter() - begun > _MAX_TIMING_SECONDS:
                break
            if before:
                before(i)
            with collecting() as collected:
                started = time.perf_counter()
                result = work(i)
                ended = time.perf_counter()
            times.append((ended - started + collected.waited) * 1000)
            self._spent[key].append(collected)
            self._rankings[key].append(result)
        self._rounds[key].append(times)
        return self._rankings[key]

    def next_round(self) -> None:
        self._done.clear()

    def summary(self, stages: Stages) -> Timing:
        """p50, p95 and mean of a pipeline, the interval of its p50, and the same by stage."""
        totals = [_total([self._at(key, number) for _, key in stages]) for number in range(_ROUNDS)]
        medians = [float(np.median(total)) for total in totals]
        middle = _total([self._medians(key) for _, key in stages])
        found: dict[str, StageTiming] = {}
        for name, key in stages:  # the second `bm25` of a pipeline is `bm25:2`, as in a trace
            same = sum(label.partition(":")[0] == name for label in found)
            label = f"{name}:{same + 1}" if same else name
            found[label] = StageTiming(*_percentiles(self._medians(key)), *_costs(self._spent[key]))
        return Timing(*_percentiles(middle), round(min(medians), 3), round(max(medians), 3), found)

    def _warm_up(self, work: Callable[[int], Rankings], reach: int) -> None:
        begun = time.perf_counter()
        for i in range(min(_WARM_UP_QUERIES, reach)):
            if not i or time.perf_counter() - begun < _WARM_UP_SECONDS:
                work(i)

    def _at(self, key: str, number: int) -> list[float]:
        """The times of a round; those of the last one if the stage was not timed so often."""
        rounds = self._rounds[key]
        return rounds[min(number, len(rounds) - 1)]

    def _medians(self, key: str) -> list[float]:
        """For each query, the median over the rounds."""
        rounds = self._rounds[key]
        shortest = min(map(len, rounds))
        return [float(value) for value in np.median([times[:shortest] for times in rounds], axis=0)]


def _total(parts: Sequence[Sequence[float]]) -> Any:
    shortest = min(map(len, parts))
    return np.sum([part[:shortest] for part in parts], axis=0)


def _joined(
    pipeline: Pipeline, sample: Sequence[Query], lists: Sequence[Sequence[Rankings]], reading: Reading, i: int
) -> Rankings:
    return pipeline.join([sample[i]], [rankings[i] for rankings in lists], reading)


def _reranked(
    reranker: Reranker,
    sample: Sequence[Query],
    given: Sequence[Rankings],
    passages: Passages,
    services: Services,
    i: int,
) -> Rankings:
    """Reranks as a search does: if the stage fails, the ranking before it is kept and the time still counts."""
    try:
        return reranker.rerank([sample[i]], given[i], passages, max(1, given[i].ids.shape[1]), services)
    except Exception:
        return given[i]


def _searched(reading: Reading, retriever: Retriever, sample: Sequence[Query], depth: int, i: int) -> Rankings:
    return reading.search(retriever, [sample[i]], depth)


def _search_again(pipeline: Pipeline, sample: Sequence[Query], reading: Reading, i: int) -> None:
    for retriever in pipeline.retrieve:
        reading.search(retriever, [sample[i]], 1)


def _costs(collected: Sequence[CollectedNotes]) -> tuple[float | None, float | None]:
    """Mean calls and dollars per query; None for a stage that calls no language model."""
    calls = sum(cost.calls for cost in collected) / max(1, len(collected))
    dollars = sum(cost.dollars for cost in collected) / max(1, len(collected))
    return (round(calls, 3), round(dollars, 8)) if calls else (None, None)


def _percentiles(values: Any) -> tuple[float, float, float]:
    """p50, p95 and mean."""
    p50, p95 = np.percentile(values, [50, 95])
    return round(float(p50), 3), round(float(p95), 3), round(float(np.mean(values)), 3)
