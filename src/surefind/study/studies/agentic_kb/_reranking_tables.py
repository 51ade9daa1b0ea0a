"""The tables of conditional reranking and of all stages: Table 5 and Figures 9 to 12."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from surefind.measure.statistics import ALPHA
from surefind.study.studies.agentic_kb import _paper as paper
from surefind.study.studies.agentic_kb._groups import cells, heads
from surefind.study.studies.agentic_kb._ladder import STEPS
from surefind.study.studies.agentic_kb._reranking import LLM, STAND_IN
from surefind.study.tables import problems, why_left_out
from surefind.study.values import Cell, Column, Finding, Head, Row, Table, Verdict

RERANKING = ("Table 5", "Figure 9", "Figure 10")
LADDER = ("Figure 11", "Figure 12")


def reranking(columns: Sequence[Column]) -> list[Table]:
    return [_costs(columns), _gains(columns), _skipped(columns)]


def _at(column: Column, tau: float) -> Mapping[str, Any]:
    rows: list[Mapping[str, Any]] = column.results["reranking"].get("thresholds", [])
    return next((row for row in rows if row["tau"] == tau), {})


def _used(columns: Sequence[Column]) -> str:
    parts = [
        f"{column.name}: {result['reranker']} on {result['questions']} questions, fused by {result['fused']}"
        for column in columns
        if "reranker" in (result := column.results["reranking"])
    ]
    return f"Reranked by – {'; '.join(parts)}." if parts else "Nothing was reranked."


def _model_row(columns: Sequence[Column], width: int) -> list[Row]:
    """Names the language model as left out, where the cross-encoder took its place."""
    why = why_left_out(columns, "reranking", LLM)
    return [Row(LLM, (None,) * width, left_out=f"{why}; {STAND_IN} takes its place")] if why else []


def _costs(columns: Sequence[Column]) -> Table:
    names = {"reranked": ".0%", "$/query": ".4f", "s/query": ".3f"}
    found = [Head(name, column.name, format=how) for column in columns for name, how in names.items()]
    found += [Head("$/query", "", paper=True, format=".4f"), Head("s/query", "", paper=True)]
    rows = []
    for tau in paper.THRESHOLDS:
        mine: list[Cell] = []
        for column in columns:
            row = _at(column, tau)
            mine += [row.get("reranked"), row.get("dollars"), row.get("seconds")]
        printed = paper.RERANK_COST.get(tau), paper.RERANK_SECONDS.get(tau)
        rows.append(Row(f"τ = {tau:.2f}", (*mine, *printed)))
    always = [column.results["reranking"].get("always", {}) for column in columns]
    mine = [row.get(key) for row in always for key in ("reranked", "dollars", "seconds")]
    rows.append(Row("always", (*mine, None, None)))
    notes = (
        _used(columns),
        "The paper's table is garbled in the copy at hand. Shown are the cells that can be read, and those that its "
        "text repeats.",
        "A question whose highest score is exactly 1 is skipped at τ = 1.00 as well (eq. 28), although the paper calls "
        "that threshold “always”. So there is a row of its own.",
        *problems(columns, "reranking"),
    )
    return Table(
        "Table 5",
        "Cost and time of reranking below a threshold",
        tuple(found),
        (*_model_row(columns, len(found)), *rows),
        notes=notes,
    )


def _gains(columns: Sequence[Column]) -> Table:
    found = [
        Head(name, column.name, format=how) for column in columns for name, how in (("T1EM", ".3f"), ("uplift", "+.3f"))
    ]
    rows = []
    last: list[float | None] = [column.results["reranking"].get("never") for column in columns]
    taus: list[float | None] = [*paper.THRESHOLDS, None]
    for tau in taus:
        mine: list[Cell] = []
        for i, column in enumerate(columns):
            row = column.results["reranking"].get("always", {}) if tau is None else _at(column, tau)
            now, before = row.get("T1EM"), last[i]
            mine += [now, None if now is None or before is None else now - before]
            last[i] = now
        printed = None if tau is None else paper.RERANK_T1EM.get(tau)
        rows.append(Row("always" if tau is None else f"τ = {tau:.2f}", (*mine, printed)))
    never = [column.results["reranking"].get("never") for column in columns]
    rows.insert(0, Row("never", (*(cell for one in never for cell in (one, None)), None)))
    return Table(
        "Figure 9",
        "T1EM by threshold",
        (*found, Head("T1EM", "", paper=True)),
        (*_model_row(columns, len(found) + 1), *rows),
        (_kept(columns),),
        (_used(columns),),
        "lines",
        drawn=("T1EM",),
    )


def _kept(columns: Sequence[Column]) -> Finding:
    claim = "At τ = 0.95, 87% of the gain of reranking always is kept, and 20% of the cost is saved."
    return Finding(claim, tuple(_kept_in(column) for column in columns))


def _kept_in(column: Column) -> Verdict:
    result, row = column.results["reranking"], _at(column, paper.TAU)
    never, always = result.get("never"), result.get("always", {}).get("T1EM")
    if never is None or always is None or not row:
        return Verdict(column.name, "left out", "Nothing was reranked.")
    gain, saved = always - never, 1 - row["reranked"]
    if gain <= 0 or result["gain_p"] >= ALPHA:
        why = f"Reranking always changes T1EM by {gain:+.3f} (p = {result['gain_p']:.3f}), no significant gain to keep."
        return Verdict(column.name, "undecided", why)
    kept = (row["T1EM"] - never) / gain
    text = f"{kept:.0%} of a gain of {gain:+.3f} is kept, and {saved:.0%} of the cost is saved."
    return Verdict(column.name, "agrees" if kept >= 0.87 and saved >= 0.16 else "disagrees", text)


def _skipped(columns: Sequence[Column]) -> Table:
    names = (("skipped", ","), ("T5EM", ".3f"), ("95% low", ".3f"), ("95% high", ".3f"))
    found = [Head(name, column.name, format=how) for column in columns for name, how in names]
    found += [Head("skipped", "", paper=True, format=","), Head("T5EM", "", paper=True)]
    rows = []
    for tau in paper.THRESHOLDS:
        mine = [_at(column, tau).get(key) for column in columns for key in ("skipped", "T5EM", "low", "high")]
        rows.append(Row(f"τ = {tau:.2f}", (*mine, paper.SKIPPED.get(tau), paper.SKIPPED_T5EM.get(tau))))
    notes = [
        f"{column.name}: the smallest τ whose lower bound is at least {paper.BETA} with 30 questions or more (eq. 32) "
        f"is {_tau(column, 'tau')}; by fixed-sequence testing, which allows for looking at many thresholds, "
        f"{_tau(column, 'tau_tested')}. The paper chose {paper.TAU}."
        for column in columns
        if column.results["reranking"].get("thresholds")
    ]
    notes += [
        "In the paper, the skipped questions are those that do worse: at τ = 0.80 they have the answer among the first "
        "five in 39.8%, and all questions have it in first place in 53.7% without reranking.",
    ]
    return Table(
        "Figure 10",
        "Success of the questions that are skipped",
        tuple(found),
        (*_model_row(columns, len(found)), *rows),
        notes=tuple(notes),
        chart="lines",
        drawn=("T5EM", "95% low", "95% high"),
    )


def _tau(column: Column, key: str) -> str:
    found = column.results["reranking"].get(key)
    return "none" if found is None else f"{found:.3f}"


# ---------------------------------------------------------------- all stages


def ladder(columns: Sequence[Column]) -> list[Table]:
    return [_steps(columns), _tags(columns)]


def _steps(columns: Sequence[Column]) -> Table:
    found = heads(columns, "ladder", "groups", paper.KEY, paper.SETS)
    ours = [head for head in found if not head.paper]
    rows = [
        Row(
            step,
            (
                *cells(columns, "ladder", "groups", step, paper.KEY, paper.SETS, {})[: len(ours)],
                paper.LADDER[step],
            ),
            left_out=why_left_out(columns, "ladder", step),
        )
        for step in STEPS
    ]
    named = [
        f"{column.name}: {column.results['chunking'].get('winner')}, {column.results['graph'].get('best')}, "
        f"{column.results['reranking'].get('fused')}, {column.results['reranking'].get('reranker')} "
        f"({column.results['ladder'].get('questions')} questions)"
        for column in columns
    ]
    notes = (
        f"Ours – {'; '.join(named)}; reranked at τ = {paper.TAU}, on the questions that were reranked.",
        "The paper's figures are T1EM over all sets, from its text. The graph is measured and then left out.",
    )
    return Table(
        "Figure 11",
        "All stages",
        (*ours, Head("T1EM", "", paper=True)),
        tuple(rows),
        notes=notes,
        chart="bars",
        drawn=("T1EM",),
    )


def _tags(columns: Sequence[Column]) -> Table:
    tags = [{one["tag"]: one for one in column.results["ladder"].get("tags", [])} for column in columns]
    found = [Head("questions", column.name, format=",") for column in columns]
    found += [Head(step, column.name) for column in columns for step in STEPS]
    rows = [
        Row(
            tag,
            (
                *(one.get(tag, {}).get("questions") for one in tags),
                *(one.get(tag, {}).get(step) for one in tags for step in STEPS),
            ),
        )
        for tag in dict.fromkeys(tag for one in tags for tag in one)
    ]
    notes = (
        "T1EM of the 15 tags with the most documents: `tags` of a document, or its folder. The paper shows a chart and "
        "prints no figure.",
    )
    return Table(
        "Figure 12", "All stages by tag", tuple(found), tuple(rows), notes=notes, chart="bars", drawn=tuple(STEPS)
    )
