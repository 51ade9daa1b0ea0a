"""Measures time and cost per query, stage by stage, as in a warm server that answers one query at a time.

A stage that several pipelines share is timed once; a pipeline's time for a query is the sum over its stages. A cached
answer of a language model counts with its original time and price.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from surefind.abilities import name_of
from surefind.access import Access
from surefind.bench.plan import Contender
from surefind.notes import Collected, collecting
from surefind.protocols import Passages, QueryFuser, Reranker, Retriever, Services
from surefind.search.pipeline import Pipeline
from surefind.search.reach import Reach
from surefind.store.backend import View
from surefind.types import Query, Rankings

SAMPLE = 30
"""Queries that each stage is timed on, at most."""
_WARM = 3
"""Untimed queries that warm a stage up before it is timed."""
_SLOW = 1.0
"""Seconds after which the warm-up ends, even with fewer queries."""
_LEAST, _LONGEST = 8, 10.0
"""A stage is timed on at least 8 queries; after these, timing stops once it has taken 10 seconds."""


def measure_latency(
    contenders: Sequence[Contender],
    queries: Sequence[Query],
    view: View,
    services: Services,
    access: Access,
) -> list[dict[str, Any]]:
    """For each contender, p50 and p95 in milliseconds: in total and by stage."""
    step = max(1, len(queries) // SAMPLE)
    sample = queries[::step][:SAMPLE]
    timed: dict[str, list[float]] = {}
    spent: dict[str, list[Collected]] = {}
    found: dict[str, list[Rankings]] = {}

    def stage(
        key: str,
        work: Callable[[int], Rankings],
        before: Callable[[int], object] | None = None,
        reach: int = len(sample),
    ) -> list[Rankings]:
        """Times `work` on the sample, unless `key` was timed already, and returns its rankings.

        `before` runs untimed before each query and restores the state that the stage has in a search. `reach` is the
        number of queries that the previous stage was timed on; a stage that takes seconds per query is timed on fewer.
        """
        if key not in timed:
            begun = time.perf_counter()
            for i in range(min(_WARM, reach)):
                if not i or time.perf_counter() - begun < _SLOW:
                    work(i)
            timed[key], found[key], spent[key] = [], [], []
            begun = time.perf_counter()
            for i in range(reach):
                if i >= _LEAST and time.perf_counter() - begun > _LONGEST:
                    break
                if before:
                    before(i)
                with collecting() as collected:
                    started = time.perf_counter()
                    result = work(i)
                    ended = time.perf_counter()
                timed[key].append((ended - started + collected.waited) * 1000)
                spent[key].append(collected)
                found[key].append(result)
        return found[key]

    results = []
    for contender in contenders:
        pipeline = contender.pipeline
        keys = []
        lists = []
        for retriever in pipeline.retrieve:
            key = f"{retriever} @{pipeline.depth}"
            keys.append((retriever.name, key))
            lists.append(stage(key, partial(_searched, view, retriever, sample, pipeline.depth, access)))
        best, path = lists[0], " + ".join(key for _, key in keys)
        if pipeline.fuse is not None:
            path = f"{path} >> {pipeline.fuse}"
            # Scoring and predicting reuse the query vectors of the search just before them.
            reuses = pipeline.completes or isinstance(pipeline.fuse, QueryFuser)
            again = partial(_search_again, pipeline, sample, view, access) if reuses else None
            best = stage(path, partial(_joined, pipeline, sample, lists, view, services, access), again)
            keys.append((name_of(pipeline.fuse), path))
        reach = Reach(pipeline, view, services, access)
        for reranker in pipeline.rerank:
            path = f"{path} >> {reranker}"
            best = stage(path, partial(_reranked, reranker, sample, best, reach, services), reach=len(best))
            keys.append((name_of(reranker), path))
        shortest = min(len(timed[key]) for _, key in keys)
        total = np.sum([timed[key][:shortest] for _, key in keys], axis=0)
        results.append({**_percentiles(total), "stages": _by_stage(keys, timed, spent)})
    return results


def _joined(
    pipeline: Pipeline,
    sample: Sequence[Query],
    lists: Sequence[Sequence[Rankings]],
    view: View,
    services: Services,
    access: Access,
    i: int,
) -> Rankings:
    return pipeline.join([sample[i]], [rankings[i] for rankings in lists], view, services, access)


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


def _searched(
    view: View, retriever: Retriever, sample: Sequence[Query], depth: int, access: Access, i: int
) -> Rankings:
    return view.search(retriever, [sample[i]], depth, access)


def _search_again(pipeline: Pipeline, sample: Sequence[Query], view: View, access: Access, i: int) -> None:
    for retriever in pipeline.retrieve:
        view.search(retriever, [sample[i]], 1, access)


def _by_stage(
    keys: Sequence[tuple[str, str]], timed: dict[str, list[float]], spent: dict[str, list[Collected]]
) -> dict[str, dict[str, float]]:
    """Times and costs by stage name; the second `bm25` of a pipeline is `bm25:2`, as in a trace."""
    found: dict[str, dict[str, float]] = {}
    for name, key in keys:
        same = sum(label.partition(":")[0] == name for label in found)
        found[f"{name}:{same + 1}" if same else name] = {**_percentiles(timed[key]), **_costs(spent[key])}
    return found


def _costs(collected: Sequence[Collected]) -> dict[str, float]:
    """Mean calls and dollars per query; empty for a stage that calls no language model."""
    calls = sum(one.calls for one in collected) / max(1, len(collected))
    dollars = sum(one.dollars for one in collected) / max(1, len(collected))
    return {"calls": round(calls, 3), "dollars": round(dollars, 8)} if calls else {}


def _percentiles(values: Any) -> dict[str, float]:
    p50, p95 = np.percentile(values, [50, 95])
    return {"p50": round(float(p50), 3), "p95": round(float(p95), 3)}
