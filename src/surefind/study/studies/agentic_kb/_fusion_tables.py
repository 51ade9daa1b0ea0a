"""The tables of fused weights: Table 4 and Figures 5 to 8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from surefind.fusion.features import SCORE_NAMES, WORD_NAMES
from surefind.study.scores import finding
from surefind.study.studies.agentic_kb import _paper as paper
from surefind.study.studies.agentic_kb._fusion import BEST
from surefind.study.studies.agentic_kb._groups import cells, heads
from surefind.study.tables import problems, why_left_out
from surefind.study.values import Cell, Cloud, Column, Head, Row, Table
from surefind.train.alpha import r_squared

FUSION = ("Table 4", "Table 4, all questions", "Figure 5", "Figure 6", "Figure 7", "Figure 8", "Figure 8, by α*")
_ROWS = (*paper.ALPHAS, *paper.LEARNED.values(), paper.ORACLE, BEST)
_CLAIMS = (
    ("On questions with one hop, BM25 alone (α = 0) beats vectors alone (α = 1).", "α = 0", "α = 1"),
    ("XGBoost beats the fixed α = 0.5.", "Learned XGBoost", "α = 0.5"),
    ("XGBoost beats ridge.", "Learned XGBoost", "Learned Ridge"),
    ("XGBoost beats the MLP.", "Learned XGBoost", "Learned MLP"),
    ("The oracle α* is above XGBoost.", paper.ORACLE, "Learned XGBoost"),
    (
        "The oracle α* is an upper bound, so it is above BM25 alone (on the paper's SF1H it is below).",
        paper.ORACLE,
        "α = 0",
    ),
)
_STEPS = 10
_POINTS = 300


def fusion(columns: Sequence[Column]) -> list[Table]:
    return [
        _tested(columns),
        _everything(columns),
        _coefficients(columns),
        _contributions(columns),
        _losses(columns),
        _fit(columns),
        _by_star(columns),
    ]


def _tested(columns: Sequence[Column]) -> Table:
    asked = ", ".join(f"{c.name}: {len(c.results['fusion'].get('test', []))}" for c in columns)
    layouts = ", ".join(f"{c.name}: {c.results['fusion'].get('layout', '–')}" for c in columns)
    notes = (
        f"Test questions, 15% of all ({asked}), on the layout that won in Table 1 ({layouts}). Ridge and XGBoost were "
        "chosen by 5-fold cross-validation on 70%, the MLP on the other 15%.",
        "The candidates are the union of the ten best passages of BM25 and of vectors, scaled as TM2C2.",
        "The oracle knows the answer. It brings scores near the share of the answer that a passage has (LSS), which is "
        "not the same as ranking best: in the paper it is below BM25 alone on SF1H (T1EM 0.561 against 0.573).",
        "In the paper, T1C is below T1EM in six rows of MF2H, which its definitions rule out: a passage that contains "
        "the answer covers all of its words. Vectors alone (α = 1) on agentic-1 have 0.264 here and 0.369 in Table 1.",
    )
    return _table("Table 4", "Fixed, learned and ideal weights, on test questions", columns, "groups", (), notes)


def _everything(columns: Sequence[Column]) -> Table:
    notes = (
        "All questions: each one's α is predicted by a model that has not seen it (five folds), with the "
        "hyperparameters chosen for Table 4.",
        *problems(columns, "fusion"),
    )
    return _table("Table 4, all questions", "The same on all questions", columns, "groups_all", _CLAIMS, notes)


def _table(
    number: str,
    title: str,
    columns: Sequence[Column],
    key: str,
    claims: Sequence[tuple[str, str, str]],
    notes: tuple[str, ...],
) -> Table:
    rows = [
        Row(
            name,
            cells(columns, "fusion", key, name, paper.KEY, paper.SETS, paper.FUSION.get(name, {})),
            left_out=why_left_out(columns, "fusion", name),
        )
        for name in _ROWS
    ]
    found = tuple(finding(claim, columns, "fusion", better, worse) for claim, better, worse in claims)
    return Table(number, title, tuple(heads(columns, "fusion", key, paper.KEY, paper.SETS)), tuple(rows), found, notes)


# ---------------------------------------------------------------- the models


def _model(column: Column, kind: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = column.results["fusion"].get("models", {}).get(kind, {})
    return found


def _left_out(columns: Sequence[Column], kind: str) -> str:
    return why_left_out(columns, "fusion", paper.LEARNED[kind])


def _chosen(columns: Sequence[Column], kind: str) -> str:
    """The hyperparameters of each collection and of the paper."""
    ours = [
        f"{column.name} {_settings(chosen)}" for column in columns if (chosen := _model(column, kind).get("chosen"))
    ]
    return f"Hyperparameters: {'; '.join([*ours, f'the paper {paper.CHOSEN[kind]}'])}."


def _settings(chosen: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in chosen.items())


def _coefficients(columns: Sequence[Column]) -> Table:
    found = [Head(name, column.name, format="+.4f") for column in columns for name in ("coefficient", "mean |SHAP|")]
    rows = []
    for name in WORD_NAMES:
        mine: list[Cell] = []
        for column in columns:
            model = _model(column, "ridge")
            mine += [model.get("coefficients", {}).get(name), model.get("effects", {}).get(name, {}).get("mean")]
        rows.append(Row(name, tuple(mine), left_out=_left_out(columns, "ridge")))
    notes = (
        "The paper shows a chart: the mean absolute coefficients of all four features are between 0 and 0.004.",
        "SHAP values of a linear model are exact: coefficient · (value - mean).",
        _chosen(columns, "ridge"),
    )
    return Table(
        "Figure 5", "What ridge learned", tuple(found), tuple(rows), notes=notes, chart="bars", drawn=("coefficient",)
    )


def _contributions(columns: Sequence[Column]) -> Table:
    names = ("mean |SHAP|", "lowest", "highest", "direction")
    found = [Head(name, column.name, format="+.3f") for column in columns for name in names]
    found += [Head("lowest", "", paper=True, format="+.2f"), Head("highest", "", paper=True, format="+.2f")]
    rows = []
    for name in SCORE_NAMES:
        mine: list[Cell] = []
        for column in columns:
            effect = _model(column, "xgboost").get("effects", {}).get(name, {})
            mine += [effect.get(key) for key in ("mean", "low", "high", "direction")]
        printed = (-0.04, 0.08) if name == "words" else (None, None)
        rows.append(Row(name, (*mine, *printed), left_out=_left_out(columns, "xgboost") if name == "words" else ""))
    notes = (
        "A SHAP value above 0 raises α, towards vectors. The direction is the correlation of a feature with its SHAP "
        "values: +1 means that higher values raise α.",
        "The paper shows the first four features: long questions raise α, and the other three are near 0. It says that "
        "the scores had the highest SHAP values.",
        _chosen(columns, "xgboost"),
    )
    return Table(
        "Figure 6",
        "What XGBoost learned (SHAP)",
        tuple(found),
        tuple(rows),
        notes=notes,
        chart="bars",
        drawn=("mean |SHAP|",),
    )


def _losses(columns: Sequence[Column]) -> Table:
    curves = [_model(column, "mlp").get("losses", []) for column in columns]
    found = [Head(name, column.name, format=".4f") for column in columns for name in ("training", "validation")]
    longest = max(map(len, curves), default=0)
    rows = [
        Row(str(epoch + 1), tuple(cell for curve in curves for cell in (curve[epoch : epoch + 1] or [(None, None)])[0]))
        for epoch in range(longest)
    ]
    rows = rows or [Row("epochs", (None,) * len(found), left_out=_left_out(columns, "mlp"))]
    notes = (
        "Mean squared error by epoch. The training loss is measured with dropout. Training ends when the validation "
        "loss has not improved for 10 epochs. In the paper it converges at epoch 5 to 10, of 30.",
        _chosen(columns, "mlp"),
    )
    return Table("Figure 7", "How the MLP learned", tuple(found), tuple(rows), notes=notes, chart="lines")


def _fit(columns: Sequence[Column]) -> Table:
    names = ("R² test", "lowest α", "highest α")
    found = [Head(name, column.name) for column in columns for name in names]
    rows = []
    for kind, name in paper.LEARNED.items():
        mine: list[Cell] = []
        for column in columns:
            stars, predicted = _pairs(column, kind)
            known = len(predicted) > 0
            mine += [r_squared(stars, predicted), predicted.min(), predicted.max()] if known else [None] * 3
        rows.append(Row(name, (*mine, paper.R_SQUARED[kind]), left_out=_left_out(columns, kind)))
    notes = (
        "How well the models predict α* of the test questions. A point is a question: α* to the right, the predicted α "
        f"upwards. A perfect model would have all points on the line. At most {_POINTS} points are drawn for a model.",
    )
    return Table(
        "Figure 8",
        "Predicted α against α*",
        (*found, Head("R²", "", paper=True)),
        tuple(rows),
        notes=notes,
        chart="clouds",
        clouds=clouds(columns),
    )


def clouds(columns: Sequence[Column]) -> tuple[Cloud, ...]:
    """α* and the predicted α of the test questions, by model. Large clouds are thinned, the same way each time."""
    made = []
    for column in columns:
        for kind, name in paper.LEARNED.items():
            stars, predicted = _pairs(column, kind)
            drawn = np.sort(np.random.default_rng(0).permutation(len(predicted))[:_POINTS])
            points = tuple(zip(stars[drawn].tolist(), predicted[drawn].tolist(), strict=True))
            made += [Cloud(f"{column.name} {name}", points)] if points else []
    return tuple(made)


def _by_star(columns: Sequence[Column]) -> Table:
    """The mean prediction by α*, in tenths: a perfect model would rise along the diagonal."""
    found = [Head("questions", column.name, format=",") for column in columns]
    found += [Head(kind, column.name) for column in columns for kind in paper.LEARNED]
    rows = []
    for step in range(_STEPS):
        counts: list[Cell] = []
        means: list[Cell] = []
        for column in columns:
            for kind in paper.LEARNED:
                stars, predicted = _pairs(column, kind)
                inside = np.minimum((stars * _STEPS).astype(int), _STEPS - 1) == step
                counts += [int(inside.sum())] if kind == "ridge" else []
                means.append(float(predicted[inside].mean()) if len(predicted) and inside.any() else None)
        rows.append(Row(f"α* {step / _STEPS:.1f}–{(step + 1) / _STEPS:.1f}", (*counts, *means)))
    return Table("Figure 8, by α*", "Mean predicted α by α*", tuple(found), tuple(rows))


def _pairs(column: Column, kind: str) -> tuple[Any, Any]:
    """α* and the predicted α of the test questions."""
    result = column.results["fusion"]
    predicted = np.array(_model(column, kind).get("test", []), dtype=np.float64)
    stars = np.array(result.get("stars", []), dtype=np.float64)[result.get("test", [])] if len(predicted) else predicted
    return stars, predicted
