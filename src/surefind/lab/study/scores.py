"""Turns the scores of a stage into plain data, and says whether a collection agrees with a claim of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.base.access import Access
from surefind.base.disk.sealed import to_json
from surefind.base.types import Floats
from surefind.engine.store.backend import View
from surefind.lab.bench.engine import Scored
from surefind.lab.bench.latency import Timing
from surefind.lab.bench.plan import short
from surefind.lab.bench.reranking import step_problems
from surefind.lab.exam.model import clusters_of
from surefind.lab.measure.statistics import ALPHA, bootstrap, compare_all
from surefind.lab.study.values import Column, Result, Support


def summary(scored: Scored, latency: Sequence[Timing] = ()) -> dict[str, Any]:
    """The scores of all contenders as plain data: means with intervals, the scores of each question by the primary
    measure, and what was searched. With `latency`, also milliseconds, calls and dollars."""
    plan, names = scored.plan, [contender.name for contender in scored.plan.contenders]
    clusters = clusters_of(plan.exam.queries)
    intervals = {measure: bootstrap(scores, clusters=clusters) for measure, scores in scored.scores.items()}
    primary = str(plan.primary)
    same = len({contender.layout for contender in plan.contenders}) == 1
    rows = {
        name: {
            "spec": str(contender),
            "shown": short(contender.pipeline) if same else f"{contender.layout} | {short(contender.pipeline)}",
            "aliases": list(contender.aliases),
            "measures": {measure: asdict(found[i]) for measure, found in intervals.items()},
            "scores": [round(value, 6) for value in scored.scores[primary][:, i].tolist()],
            **(_timed(latency[i]) if latency else {}),
        }
        for i, (name, contender) in enumerate(zip(names, plan.contenders, strict=True))
    }
    return {
        "primary": primary,
        "rows": rows,
        "clusters": clusters.tolist(),
        "families": [query.family for query in plan.exam.queries],
        "questions": len(plan.exam.queries),
        **scored.left_out.facts,
        "passages": readable_passages(scored.view, plan.access),
        "documents": len(scored.view.admitted(plan.access)),
        "layout": scored.view.layout,
        "problems": [*scored.problems, *step_problems(names, scored.steps)],
    }


def plain_row(spec: str, scores: Mapping[str, Floats], primary: str, clusters: NDArray[np.int64]) -> dict[str, Any]:
    """A row like those of `summary`, for scores of each question that no contender made."""
    intervals = {measure: bootstrap(values[:, None], clusters=clusters)[0] for measure, values in scores.items()}
    return {
        "spec": spec,
        "shown": spec,
        "aliases": [],
        "measures": {measure: asdict(interval) for measure, interval in intervals.items()},
        "scores": [round(value, 6) for value in scores[primary].tolist()],
    }


def readable_passages(view: View, access: Access) -> int:
    """Returns how many chunks these groups may read."""
    spans, admitted = view.spans(), set(view.admitted(access))
    readable = np.array([name in admitted for name in spans.names], bool)
    return int(readable[spans.documents].sum())


def _timed(timing: Timing) -> dict[str, Any]:
    return {"latency_ms": to_json(timing), "calls": timing.calls, "cost_per_1k": timing.cost_per_1k}


def mean(result: Result, name: str, measure: str) -> float | None:
    """The mean of a row; None if the row was left out."""
    row = row_of(result, name)
    return None if row is None else float(row["measures"][measure]["mean"])


def row_of(result: Result, name: str) -> dict[str, Any] | None:
    """The row of this name, or of which it is an alias."""
    rows: dict[str, dict[str, Any]] = result.get("rows", {})
    return rows.get(name) or next((row for row in rows.values() if name in row["aliases"]), None)


def best_of(result: Result, names: Sequence[str], measure: str) -> str | None:
    """The row with the highest mean; the first of equal ones; None if all of them were left out."""
    there = [name for name in names if row_of(result, name) is not None]
    return max(there, key=lambda name: mean(result, name, measure) or 0.0, default=None)


def judge(column: Column, stage: str, better: str, worse: str) -> Support:
    """Whether `better` beats `worse` in a collection, by the primary measure and an exact test over the questions."""
    result = column.results.get(stage, {})
    first, second = row_of(result, better), row_of(result, worse)
    if first is None or second is None:
        missing = better if first is None else worse
        return Support(column.name, "left out", f"{missing} was not measured.")
    pairs = np.array([first["scores"], second["scores"]], dtype=np.float64).T
    measured = compare_all(pairs, clusters=np.array(result["clusters"]))[0]
    means = pairs.mean(axis=0)
    change = f"{measured.difference:+.3f} [{measured.low:+.3f}, {measured.high:+.3f}]"
    text = (
        f"{result['primary']} {means[0]:.3f} ({better}) against {means[1]:.3f} ({worse}): {change}, p {_p(measured.p)}."
    )
    if measured.p >= ALPHA:
        return Support(column.name, "undecided", text)
    return Support(column.name, "agrees" if measured.difference > 0 else "disagrees", text)


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"
