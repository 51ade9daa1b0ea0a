"""The columns, cells, verdicts and notes of the agentic-knowledge-base study's tables that are computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from surefind.base.types import Floats
from surefind.engine.fuse.support.features import SCORE_NAMES
from surefind.lab.bench.plan import on_layout
from surefind.lab.measure.statistics import ALPHA
from surefind.lab.study.studies.agentic_kb import _setting as paper
from surefind.lab.study.studies.agentic_kb._layering import DENSE
from surefind.lab.study.studies.agentic_kb._reranking import LLM, STAND_IN
from surefind.lab.study.studies.agentic_kb._setting import ALL, LAYOUTS
from surefind.lab.study.tables import ROW, Columns, Figure, Ours, TableLine, at, in_row, why_left_out
from surefind.lab.study.values import Cell, Cloud, Column, Result, Support
from surefind.lab.train.alpha import r_squared

_STEPS = 10
_POINTS = 300
TENTHS = {f"α* {step / _STEPS:.1f}–{(step + 1) / _STEPS:.1f}": step for step in range(_STEPS)}
__all__ = ["LAYOUTS", "SCORE_NAMES", "TENTHS"]


def grouped(
    key: str = "groups", measures: Sequence[str] = paper.KEY, sets: Sequence[str] = paper.SETS, of: str = ROW
) -> Ours:
    """Our means by these measures: in each of the study's sets, or over all questions if the exam has none."""

    def figures(result: Result) -> list[Figure]:
        there = [name for name in sets if name in result.get(key, {})]
        return [
            Figure(measure, at(key, group, of, measure), group="" if group == ALL else f" {group}")
            for group in there or [ALL]
            for measure in measures
        ]

    return Ours(figures)


# ---------------------------------------------------------------- layouts


def winners(columns: Columns) -> list[str]:
    results = [(column.name, column.results["chunking"]) for column in columns]
    names = ", ".join(f"{name}: {result.get('winner', '–')}" for name, result in results)
    if any(result.get("chosen") for _, result in results):
        return [f"Later stages use the layout that --winner chose ({names})."]
    return [f"The layout with the highest mean of the four measures by vectors, which later stages use: {names}."]


def seconds_per_query(result: Result, row: str) -> Cell:
    milliseconds = in_row("latency_ms", "p50")(result, on_layout(row, DENSE))
    return None if milliseconds is None else float(milliseconds) / 1000


# ---------------------------------------------------------------- fused weights


def tested(columns: Columns) -> list[str]:
    asked = ", ".join(f"{c.name}: {len(c.results['fusion'].get('test', []))}" for c in columns)
    layouts = ", ".join(f"{c.name}: {c.results['fusion'].get('layout', '–')}" for c in columns)
    return [
        f"Test questions, 15% of all ({asked}), on the layout that won in Table 1 ({layouts}). Ridge and XGBoost were "
        "chosen by 5-fold cross-validation on 70%, the MLP on the other 15%."
    ]


def _model(result: Result, kind: str) -> Mapping[str, Any]:
    model: Mapping[str, Any] = result.get("models", {}).get(kind, {})
    return model


def chosen(columns: Columns, kind: str, paper: str) -> list[str]:
    """The hyperparameters of each collection and of the paper."""
    models = [(column.name, _model(column.results["fusion"], kind)) for column in columns]
    ours = [f"{name} {_settings(model['chosen'])}" for name, model in models if model.get("chosen")]
    return [f"Hyperparameters: {'; '.join([*ours, f'the paper {paper}'])}."]


def _settings(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in parameters.items())


def epochs(columns: Columns, stage: str) -> list[TableLine]:
    curves = [_model(column.results[stage], "mlp").get("losses", []) for column in columns]
    lines = [TableLine(str(epoch + 1)) for epoch in range(max(map(len, curves), default=0))]
    return lines or [TableLine("epochs", left_out=why_left_out(columns, stage, paper.LEARNED["mlp"]))]


def loss(result: Result, epoch: str, curve: int) -> Cell:
    """The loss in the epoch of a row, of training (0) or of validation (1)."""
    losses = _model(result, "mlp").get("losses", [])
    cell: Cell = losses[int(epoch) - 1][curve] if epoch.isdigit() and int(epoch) <= len(losses) else None
    return cell


def _pairs(result: Result, kind: str, group: str = ALL) -> tuple[Floats, Floats]:
    """α* and the predicted α of the test questions, of all or of one set."""
    predicted = np.array(_model(result, kind).get("test", []), dtype=np.float64)
    if not len(predicted):
        return predicted, predicted
    places = result["test"]
    stars = np.array(result["stars"], dtype=np.float64)[places]
    if group == ALL:
        return stars, predicted
    inside = np.array([result["families"][i].upper() == group for i in places])
    return stars[inside], predicted[inside]


def _sets(result: Result) -> list[str]:
    """The study's sets among the test questions; one of all questions if the exam has none."""
    families = result.get("families", [])
    asked = {families[i].upper() for i in result.get("test", [])} if families else set()
    return [name for name in paper.SETS if name in asked] or [ALL]


def fits() -> Ours:
    """How well the models predict α*, in each of the study's sets that the exam has."""
    kinds = (("R² test", "R²"), ("lowest α", "lowest"), ("highest α", "highest"))

    def figures(result: Result) -> list[Figure]:
        there = _sets(result)
        groups = there if there == [ALL] else [*there, ALL]
        return [
            Figure(text, partial(fit, what=what, group=group), group="" if group == ALL else f" {group}")
            for group in groups
            for text, what in kinds
        ]

    return Ours(figures)


def fit(result: Result, row: str, what: str, group: str) -> Cell:
    kind = next(kind for kind, name in paper.LEARNED.items() if name == row)
    stars, predicted = _pairs(result, kind, group)
    if not len(predicted):
        return None
    return r_squared(stars, predicted) if what == "R²" else predicted.min() if what == "lowest" else predicted.max()


def clouds(columns: Columns) -> tuple[Cloud, ...]:
    """α* and the predicted α of the test questions, by model and set. Large clouds are thinned, the same way each
    time."""
    made = []
    for column in columns:
        result = column.results["fusion"]
        for kind, name in paper.LEARNED.items():
            for group in _sets(result):
                stars, predicted = _pairs(result, kind, group)
                drawn = np.sort(np.random.default_rng(0).permutation(len(predicted))[:_POINTS])
                points = tuple(zip(stars[drawn].tolist(), predicted[drawn].tolist(), strict=True))
                shown = name if group == ALL else f"{group} {name}"
                made += [Cloud(f"{column.name} {shown}", points)] if points else []
    return tuple(made)


def swarms(columns: Columns) -> tuple[Cloud, ...]:
    """The SHAP value of each test question and the value of the feature, for the four features that the paper shows."""
    return tuple(
        Cloud(f"{column.name} {feature}" if len(columns) > 1 else feature, tuple(map(tuple, points)))
        for column in columns
        for feature, points in _model(column.results["fusion"], "xgboost").get("points", {}).items()
    )


def _in_tenth(result: Result, row: str, kind: str) -> Floats:
    """The predictions for the questions whose α* is in the tenth of a row."""
    stars, predicted = _pairs(result, kind)
    inside: Floats = predicted[np.minimum((stars * _STEPS).astype(int), _STEPS - 1) == TENTHS[row]]
    return inside


def count_in_tenth(result: Result, row: str) -> Cell:
    return len(_in_tenth(result, row, "ridge"))


def mean_in_tenth(result: Result, row: str, kind: str) -> Cell:
    inside = _in_tenth(result, row, kind)
    return float(inside.mean()) if len(inside) else None


# ---------------------------------------------------------------- conditional reranking

_TAUS = {f"τ = {tau:.2f}": tau for tau in paper.THRESHOLDS}
_NEVER, _ALWAYS = "never", "always"
_ORDER = (_NEVER, *_TAUS, _ALWAYS)
"""The rows of Figure 9; an uplift is over the row before."""


def thresholds(columns: Columns, stage: str, first: str = "", last: str = "") -> list[TableLine]:
    """A row for each threshold. Where the cross-encoder took the place of the language model, a row before says so."""
    why = why_left_out(columns, stage, LLM)
    model = [TableLine(LLM, left_out=f"{why}; {STAND_IN} takes its place")] if why else []
    return [*model, *(TableLine(name) for name in (first, *_TAUS, last) if name)]


def _measured_at(result: Result, row: str) -> Mapping[str, Any]:
    if row in (_NEVER, _ALWAYS):
        always: Mapping[str, Any] = result.get(_ALWAYS, {})
        return always if row == _ALWAYS else {"T1EM": result.get(_NEVER)}
    measured: list[Mapping[str, Any]] = result.get("thresholds", [])
    return next((measured_row for measured_row in measured if measured_row["tau"] == _TAUS.get(row)), {})


def at_threshold(result: Result, row: str, key: str) -> Cell:
    cell: Cell = _measured_at(result, row).get(key)
    return cell


def uplift(result: Result, row: str) -> Cell:
    if row not in _ORDER[1:]:
        return None
    now, before = (_measured_at(result, name).get("T1EM") for name in (row, _ORDER[_ORDER.index(row) - 1]))
    return None if now is None or before is None else now - before


def used(columns: Columns) -> list[str]:
    parts = [
        f"{column.name}: {result['reranker']} on {result['questions']} questions, fused by {result['fused']}"
        for column in columns
        if "reranker" in (result := column.results["reranking"])
    ]
    return [f"Reranked by – {'; '.join(parts)}." if parts else "Nothing was reranked."]


def kept(column: Column, stage: str) -> Support:
    """Whether most of the gain is kept at the threshold of the paper, for less cost."""
    result = column.results[stage]
    row = _measured_at(result, f"τ = {paper.TAU:.2f}")
    never, always = result.get(_NEVER), result.get(_ALWAYS, {}).get("T1EM")
    if never is None or always is None or not row:
        return Support(column.name, "left out", "Nothing was reranked.")
    gain, saved = always - never, 1 - row["reranked"]
    if gain <= 0 or result["gain_p"] >= ALPHA:
        why = f"Reranking always changes T1EM by {gain:+.3f} (p = {result['gain_p']:.3f}), no significant gain to keep."
        return Support(column.name, "undecided", why)
    share = (row["T1EM"] - never) / gain
    text = f"{share:.0%} of a gain of {gain:+.3f} is kept, and {saved:.0%} of the cost is saved."
    return Support(column.name, "agrees" if share >= 0.87 and saved >= 0.16 else "disagrees", text)


def calibrated(columns: Columns) -> list[str]:
    results = [(column.name, column.results["reranking"]) for column in columns]
    return [
        f"{name}: the smallest τ whose lower bound is at least {paper.BETA} with 30 questions or more (eq. 32) "
        f"is {_tau(result, 'tau')}; by fixed-sequence testing, which allows for looking at many thresholds, "
        f"{_tau(result, 'tau_tested')}. The paper chose {paper.TAU}."
        for name, result in results
        if result.get("thresholds")
    ]


def _tau(result: Result, key: str) -> str:
    return "none" if result.get(key) is None else f"{result[key]:.3f}"


# ---------------------------------------------------------------- all stages


def stages(columns: Columns) -> list[str]:
    named = [
        f"{column.name}: {column.results['chunking'].get('winner')}, {column.results['graph'].get('best')}, "
        f"{column.results['reranking'].get('fused')}, {column.results['reranking'].get('reranker')} "
        f"({column.results['ladder'].get('questions')} questions)"
        for column in columns
    ]
    return [f"Ours – {'; '.join(named)}; reranked at τ = {paper.TAU}, on the questions that were reranked."]


def of_tag(result: Result, tag: str, key: str) -> Cell:
    return next((tagged.get(key) for tagged in result.get("tags", []) if tagged["tag"] == tag), None)


def tags(columns: Columns, stage: str) -> list[TableLine]:
    names = [tagged["tag"] for column in columns for tagged in column.results[stage].get("tags", [])]
    return [TableLine(name) for name in dict.fromkeys(names)]
