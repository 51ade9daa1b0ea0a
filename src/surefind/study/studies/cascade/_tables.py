"""The tables of the cascade study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from surefind.study.scores import finding, row_of
from surefind.study.studies.cascade import _paper as paper
from surefind.study.studies.cascade._measure import MEASURES, NDCG, PIPELINES, STATIC
from surefind.study.tables import measured_rows, ours, problems, theirs, why_left_out
from surefind.study.values import NEEDS_LLM, Cell, Column, Head, Row, Table

_PLAIN = {"dense alone": (1.0, 0.0, 0.0), "sparse alone": (0.0, 1.0, 0.0), "graph alone": (0.0, 0.0, 1.0)}
_HELD = 0.00005
"""A smaller change of a question's score is a rounding error."""
_WORST = 2
"""The most degraded questions that Table VI lists of each collection and stage."""


def static_weights(columns: Sequence[Column]) -> list[Table]:
    """The grid of static weights: the best point, the paper's, and each retriever alone."""
    heads: list[Head] = []
    for column in columns:
        heads += [Head("weights", column.name), Head(NDCG, column.name)]
    rows = [Row("best here", _best_point(columns), left_out=why_left_out(columns, "tuning", paper.TUNED))]
    rows += [
        Row(name, tuple(cell for column in columns for cell in _point(column, weights)))
        for name, weights in {"the paper's": STATIC, **_PLAIN}.items()
    ]
    asked = ", ".join(f"{c.name}: {c.results['tuning'].get('questions', 0)}" for c in columns)
    notes = (
        "Weights of dense, sparse (BM25 and TF-IDF) and graph, from the whole simplex in steps of 0.05 (231 points), "
        f"tuned on questions that the other tables do not ask ({asked}). The paper tuned on the validation questions "
        "of FiQA.",
    )
    return [Table("Static weights", "The grid search behind Table III", tuple(heads), tuple(rows), notes=notes)]


def _best_point(columns: Sequence[Column]) -> tuple[Cell, ...]:
    found = [column.results["tuning"].get("weights") for column in columns]
    return tuple(cell for column, best in zip(columns, found, strict=True) for cell in _point(column, best or ()))


def _point(column: Column, weights: Sequence[float]) -> tuple[Cell, Cell]:
    wanted = [round(weight, 2) for weight in weights]
    points = column.results["tuning"].get("points", [])
    return next(((_written(p[:3]), p[3]) for p in points if p[:3] == wanted), (None, None))


def _written(weights: Sequence[float]) -> str:
    return ", ".join(f"{weight:.2f}" for weight in weights)


def weights(columns: Sequence[Column]) -> list[Table]:
    names = [paper.STATIC, paper.TUNED, paper.DYNAMIC, paper.INFORMED, paper.RULE]
    rows = measured_rows(columns, "fusion", names, [NDCG], paper.WEIGHTS, paper.SETS)
    claims = (
        ("Static weights beat dynamic weights on every set.", paper.STATIC, paper.DYNAMIC),
        ("The same, with the rules that the paper falls back on if the model fails.", paper.STATIC, paper.RULE),
    )
    return [
        Table(
            "Table III",
            "Static against dynamic weights, on identical candidates (nDCG@10)",
            (*ours(columns, [NDCG]), *theirs(paper.SETS, number_format=".4f")),
            tuple(rows),
            tuple(finding(claim, columns, "fusion", better, worse) for claim, better, worse in claims),
            (
                "All rows fuse the same candidates: the first 100 of each retriever, each scored by all three.",
                "The paper's text says that with static weights tri-modal fusion beat dense-only on FiQA and "
                "NFCorpus. Its tables say the opposite: 0.2730 against 0.3850, and 0.3482 against 0.3537.",
                "The paper's dynamic column equals its row Tri-Modal of Table II. But its Algorithm 1 ranks by RRF, "
                "which does not use the weights.",
                *problems(columns, "fusion"),
            ),
        )
    ]


def ablation(columns: Sequence[Column]) -> list[Table]:
    return [
        _components(columns),
        _steps(columns),
        _ablation(columns),
        _measures(columns),
        _swaps(columns),
        _degraded(columns),
        _worst(columns),
        _kinds(columns),
    ]


def _components(columns: Sequence[Column]) -> Table:
    heads = tuple(Head(part) for part in paper.PARTS)
    rows = [
        Row(name, paper.COMPONENTS[name], PIPELINES[name], why_left_out(columns, "ablation", name))
        for name in paper.CONFIGURATIONS
    ]
    notes = ("Candidates 100 → 10 → 5: the cross-encoder reads 100 passages, the language model 10, and orders 5.",)
    return Table("Table A", "The configurations of the ablation", heads, tuple(rows), notes=notes)


def _steps(columns: Sequence[Column]) -> Table:
    rows = measured_rows(columns, "ablation", list(paper.STEPS), [NDCG], paper.ABLATION, paper.SETS)
    claims = (
        ("The cross-encoder improves tri-modal retrieval on every set.", paper.CE, paper.TRI),
        ("The language model improves on the cross-encoder on every set.", paper.FULL, paper.CE),
    )
    return Table(
        "Table I",
        "nDCG@10 after each stage of the pipeline",
        _heads(columns),
        tuple(replace(row, name=paper.STEPS[row.name]) for row in rows),
        tuple(finding(claim, columns, "ablation", better, worse) for claim, better, worse in claims),
        problems(columns, "ablation"),
        "bars",
    )


def _ablation(columns: Sequence[Column]) -> Table:
    rows = measured_rows(columns, "ablation", paper.CONFIGURATIONS, [NDCG], paper.ABLATION, paper.SETS)
    claims = (
        ("Dense alone beats tri-modal fusion on every set.", paper.DENSE, paper.TRI),
        ("Bi-modal fusion beats tri-modal fusion on every set.", paper.BI, paper.TRI),
        (
            "The cross-encoder recovers what fusion lost on every set (its FiQA: 0.3596 against 0.3850 of dense "
            "alone).",
            paper.CE,
            paper.DENSE,
        ),
    )
    return Table(
        "Table II",
        "Ablation (nDCG@10)",
        _heads(columns),
        tuple(rows),
        tuple(finding(claim, columns, "ablation", better, worse) for claim, better, worse in claims),
        (
            "The paper's abstract says that language-model reranking does not match static weights. By its tables "
            "that holds on SciFact (0.7556 against 0.7603), not on FiQA (0.3873 against 0.2730) or NFCorpus (0.3981 "
            "against 0.3482).",
        ),
    )


def _heads(columns: Sequence[Column]) -> tuple[Head, ...]:
    return (*ours(columns, [NDCG]), *theirs(paper.SETS, number_format=".4f"))


def _measures(columns: Sequence[Column]) -> Table:
    rows = measured_rows(columns, "ablation", paper.CONFIGURATIONS, MEASURES, {}, ())
    notes = ("The paper measures at 1, 5 and 10 as well, and prints nDCG@10 only.",)
    return Table("Measures", "All measures at 10, 5 and 1", tuple(ours(columns, MEASURES)), tuple(rows), notes=notes)


# ---------------------------------------------------------------- what the rerankers moved


def _moved(column: Column, stage: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = column.results["ablation"].get("moved", {}).get(stage, {})
    return found


def _swaps(columns: Sequence[Column]) -> Table:
    rows = []
    for stage, title in (("cross_encoder", "Cross-encoder"), ("llm", "LLM")):
        for name, key, scale in (("average swaps", "swaps", 1), ("top-1 changed, %", "top1_changed", 100)):
            mine = [_moved(column, stage).get(key) for column in columns]
            printed = paper.SWAPS[f"{title}: {name}"]
            cells = [*(None if value is None else value * scale for value in mine), *printed.values()]
            rows.append(Row(f"{title}: {name}", tuple(cells), left_out=_asking(stage, mine)))
    heads = (*(Head("ours", column.name, format=".2f") for column in columns), *theirs(paper.SETS, number_format=".2f"))
    notes = ("A swap is a place among the first ten that holds another passage than before.",)
    return Table("Table IV", "What the rerankers moved", heads, tuple(rows), notes=notes)


def _asking(stage: str, cells: Sequence[Any]) -> str:
    return NEEDS_LLM if stage == "llm" and all(cell is None for cell in cells) else ""


def _degraded(columns: Sequence[Column]) -> Table:
    rows = []
    for stage, title in (("cross_encoder", "Cross-encoder"), ("llm", "LLM")):
        moved = [_moved(column, stage) for column in columns]
        mine = [_degraded_cells(one) for one in moved]
        for i, name in enumerate(("degraded questions", "degraded, with a number", "mean words, degraded and all")):
            printed = paper.DEGRADED.get(f"{title}: {name}", (None, None, None))
            cells = (*(cells[i] for cells in mine), *printed)
            rows.append(Row(f"{title}: {name}", cells, left_out=_asking(stage, [cells[i] for cells in mine])))
    heads = (*(Head("ours", column.name) for column in columns), *theirs(paper.SETS))
    notes = (
        "A question is degraded if its nDCG@10 is lower than before the stage. The paper prints this for the "
        "language model, and counts tokens where we count words.",
    )
    return Table("Table V", "Degraded questions", heads, tuple(rows), notes=notes)


def _degraded_cells(moved: Mapping[str, Any]) -> tuple[Cell, Cell, Cell]:
    if not moved:
        return None, None, None
    worse, mine, every = moved["degraded"], moved["words"]["degraded"], moved["words"]["all"]
    numbers = f"{moved['degraded_with_numbers']} / {worse}"
    return f"{worse} / {moved['queries']}", numbers, f"{'–' if mine is None else mine}, {every}"


def _worst(columns: Sequence[Column]) -> Table:
    rows = [
        Row(one["text"], (column.name, title, one["change"], None))
        for column in columns
        for stage, title in (("llm", "LLM"), ("cross_encoder", "cross-encoder"))
        for one in _moved(column, stage).get("worst", [])[:_WORST]
    ]
    rows += [Row(text, (name, "LLM", None, change)) for name, change, text in paper.WORST]
    if not any(_moved(column, "llm") for column in columns):
        rows.insert(0, Row("LLM", (None, None, None, None), left_out=NEEDS_LLM))
    heads = (
        Head("collection"),
        Head("stage"),
        Head("change of nDCG@10", "ours", format="+.4f"),
        Head("change of nDCG@10", paper=True, format="+.4f"),
    )
    return Table("Table VI", "The most degraded questions", heads, tuple(rows))


def _kinds(columns: Sequence[Column]) -> Table:
    """How many questions of each kind a stage degraded and improved."""
    stages = (("cross-encoder", paper.TRI, paper.CE), ("LLM", paper.CE, paper.FULL))
    counted = [{title: _by_kind(column, *pair) for title, *pair in stages} for column in columns]
    kinds = dict.fromkeys(kind for column in columns for kind in sorted(column.results["ablation"].get("families", [])))
    heads = [Head(title, column.name) for column in columns for title, *_ in stages]
    rows = [Row(kind, tuple(found[title].get(kind) for found in counted for title, *_ in stages)) for kind in kinds]
    left_out = why_left_out(columns, "ablation", paper.FULL)
    rows += [Row("LLM", (None,) * len(heads), left_out=left_out)] if left_out else []
    notes = ("Questions that got worse, and better, of all of their kind, by nDCG@10.",)
    return Table("Degraded by kind", "Degraded questions by kind", tuple(heads), tuple(rows), notes=notes)


def _by_kind(column: Column, before: str, after: str) -> dict[str, str]:
    result = column.results["ablation"]
    first, second = row_of(result, before), row_of(result, after)
    if first is None or second is None:
        return {}
    changes: dict[str, list[float]] = {}
    for kind, a, b in zip(result["families"], first["scores"], second["scores"], strict=True):
        changes.setdefault(kind, []).append(b - a)
    return {
        kind: f"{sum(c < -_HELD for c in made)} worse, {sum(c > _HELD for c in made)} better of {len(made)}"
        for kind, made in changes.items()
    }


# ---------------------------------------------------------------- latency


def latency(columns: Sequence[Column]) -> list[Table]:
    parts = [_milliseconds(column) for column in columns]
    rows = [
        Row(name, (*(one[name] for one in parts), *printed.values()), left_out=_slow(name, parts))
        for name, printed in paper.LATENCY.items()
    ]
    notes = (
        "Ours is the sum of the medians of the stages, one question at a time on this machine. The paper prints "
        "means. Its weights and its language model were asked over the network.",
    )
    heads = (*(Head("ms", column.name, format=",.1f") for column in columns), *theirs(paper.SETS, number_format=",.0f"))
    return [Table("Table VII", "Milliseconds per question, by stage", heads, tuple(rows), notes=notes, chart="bars")]


def _milliseconds(column: Column) -> dict[str, float | None]:
    stages = column.results["latency"].get("stages", {})

    def median(*names: str) -> float | None:
        there = [stages[name]["p50"] for name in names if name in stages]
        return sum(there) if there else None

    found = {
        "Weight Assignment": median("llm_weights"),
        "Retrieval": median("dense", "sparse", "entity_overlap", "rrf"),
        "Cross-Encoder": median("cross_encoder"),
        "LLM Reranking": median("llm_listwise"),
    }
    return {**found, "Total": sum(value or 0.0 for value in found.values()) if stages else None}


def _slow(name: str, parts: Sequence[Mapping[str, float | None]]) -> str:
    asks = name in ("Weight Assignment", "LLM Reranking")
    return NEEDS_LLM if asks and all(one[name] is None for one in parts) else ""
