"""The cells of the cascade study's tables that are computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from surefind.lab.study.scores import mean, row_of
from surefind.lab.study.studies.cascade import _paper as paper
from surefind.lab.study.studies.cascade._measure import PIPELINES, STATIC
from surefind.lab.study.tables import Columns, TableLine, why_left_out
from surefind.lab.study.values import NEEDS_LLM, Cell, Result

__all__ = [
    "PIPELINES",
    "against_static",
    "by_kind",
    "datasets",
    "degraded",
    "grid",
    "kinds",
    "milliseconds",
    "reached",
    "swaps",
    "weights",
    "worst",
]

_HELD = 0.00005
"""A smaller change of a question's score is a rounding error."""
_WORST = 2
"""The most degraded questions that Table VI lists of each collection and stage."""

# ---------------------------------------------------------------- collections


def datasets(columns: Columns, stage: str) -> list[TableLine]:
    """A row for each collection: its documents, passages and questions."""
    results = [(column.name, column.results[stage]) for column in columns]
    return [
        TableLine(name, cells=(*(result.get(key) for key in ("documents", "passages", "questions")), None, None, None))
        for name, result in results
    ]


# ---------------------------------------------------------------- static weights

_POINTS: dict[str, tuple[float, ...]] = {
    "the paper's": STATIC,
    "dense alone": (1.0, 0.0, 0.0),
    "sparse alone": (0.0, 1.0, 0.0),
    "graph alone": (0.0, 0.0, 1.0),
}


def _point(result: Result, row: str) -> Sequence[float]:
    """The weights of a row of the grid, and what they reached; empty if they were not measured."""
    chosen: Sequence[float] = _POINTS[row] if row in _POINTS else result.get("weights") or ()
    wanted = [round(weight, 2) for weight in chosen]
    return next((point for point in result.get("points", []) if point[:3] == wanted), ())


def weights(result: Result, row: str) -> Cell:
    return ", ".join(f"{weight:.2f}" for weight in _point(result, row)[:3]) or None


def reached(result: Result, row: str) -> Cell:
    return next(iter(_point(result, row)[3:]), None)


def against_static(result: Result, row: str) -> Cell:
    """How much a row is above the static weights of the paper."""
    here, static = mean(result, row, "nDCG@10"), mean(result, paper.STATIC, "nDCG@10")
    return None if row == paper.STATIC or here is None or static is None else here - static


def grid(columns: Columns) -> list[str]:
    asked = ", ".join(f"{c.name}: {c.results['tuning'].get('questions', 0)}" for c in columns)
    return [
        "Weights of dense, sparse (BM25 and TF-IDF) and graph, from the whole simplex in steps of 0.05 (231 points), "
        f"tuned on questions that the other tables do not ask ({asked}). The paper tuned on the validation questions "
        "of FiQA."
    ]


# ---------------------------------------------------------------- what the rerankers moved

_STAGES = {"Cross-encoder": "cross_encoder", "LLM": "llm"}


def _moved(result: Result, row: str) -> tuple[Mapping[str, Any], str]:
    """What the reranker in a row's name moved, and what the row shows of it."""
    title, what = row.split(": ")
    return result.get("moved", {}).get(_STAGES[title], {}), what


def swaps(result: Result, row: str) -> Cell:
    moved, what = _moved(result, row)
    key, scale = ("swaps", 1) if what == "average swaps" else ("top1_changed", 100)
    return None if key not in moved else moved[key] * scale


def degraded(result: Result, row: str) -> Cell:
    moved, what = _moved(result, row)
    if not moved:
        return None
    worse, words = moved["degraded"], moved["words"]
    if what == "degraded questions":
        return f"{worse} / {moved['queries']}"
    if what == "degraded, with a number":
        return f"{moved['degraded_with_numbers']} / {worse}"
    return f"{'–' if words['degraded'] is None else words['degraded']}, {words['all']}"


def worst(columns: Columns, stage: str) -> list[TableLine]:
    moved = {column.name: column.results[stage].get("moved", {}) for column in columns}
    lines = [
        TableLine(question["text"], cells=(name, title, question["change"], None))
        for name, by_stage in moved.items()
        for key, title in (("llm", "LLM"), ("cross_encoder", "cross-encoder"))
        for question in by_stage.get(key, {}).get("worst", [])[:_WORST]
    ]
    asked = any(by_stage.get("llm") for by_stage in moved.values())
    return lines if asked else [TableLine("LLM", left_out=NEEDS_LLM), *lines]


def kinds(columns: Columns, stage: str) -> list[TableLine]:
    families = dict.fromkeys(kind for c in columns for kind in sorted(c.results[stage].get("families", [])))
    left_out = why_left_out(columns, stage, paper.FULL)
    return [*map(TableLine, families), *([TableLine("LLM", left_out=left_out)] if left_out else [])]


def by_kind(result: Result, kind: str, before: str, after: str) -> Cell:
    """How many questions of a kind a stage degraded and improved."""
    first, second = row_of(result, before), row_of(result, after)
    if first is None or second is None:
        return None
    scores = zip(result["families"], first["scores"], second["scores"], strict=True)
    changes = [b - a for family, a, b in scores if family == kind]
    worse, better = sum(c < -_HELD for c in changes), sum(c > _HELD for c in changes)
    return f"{worse} worse, {better} better of {len(changes)}" if changes else None


# ---------------------------------------------------------------- latency

_PARTS = {
    "Weight Assignment": ("llm_weights",),
    "Retrieval": ("dense", "sparse", "entity_overlap", "rrf"),
    "Cross-Encoder": ("cross_encoder",),
    "LLM Reranking": ("llm_listwise",),
}


def milliseconds(result: Result, row: str, of: str) -> Cell:
    """The sum of the means or medians of the stages that a row counts."""
    stages = result.get("stages", {})
    if row not in _PARTS:
        return sum(float(milliseconds(result, part, of) or 0.0) for part in _PARTS) if stages else None
    times = [stages[name][of] for name in _PARTS[row] if name in stages]
    return sum(times) if times else None
