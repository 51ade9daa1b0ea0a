"""Tables as data: rows, cells and claims of a small table by hand; all tables of all studies by fingerprint."""

from __future__ import annotations

from dataclasses import asdict

from cases import each
from surefind.base.disk.sealed import digest
from surefind.lab.study.stage import find_study, study_names
from surefind.lab.study.tables import (
    ROW,
    Claim,
    Figure,
    Ours,
    Paper,
    TableSpec,
    at,
    beats,
    every_row,
    in_row,
    mean_of,
    with_printed,
)
from surefind.lab.study.values import Column, Head, Row

WITHOUT_RESULTS = {
    "agentic-kb": "f95f7a45dd7bb0fb",
    "cascade": "f3170a87d3e307c4",
    "context-layer": "61ff39920c0cae7b",
    "support-chatbot": "119b5648ce1b2fda",
}
"""Fingerprints of what the studies print before anything is measured: headings, the papers' figures, claims, notes."""


@each("name", study_names())
def test_headings_figures_of_the_papers_and_notes_have_not_changed(name: str) -> None:
    study = find_study(name)
    column = Column("mine", {stage.name: {} for stage in study.stages})
    assert (
        digest([asdict(table.filled([column])) for stage in study.stages for table in stage.tables])
        == (WITHOUT_RESULTS[name])
    )


def _row(mean: float, scores: list[float], *aliases: str) -> dict[str, object]:
    return {
        "spec": f"spec {mean}",
        "shown": f"shown {mean}",
        "aliases": list(aliases),
        "measures": {"RR@10": {"mean": mean}},
        "scores": scores,
        "latency_ms": {"p50": 10 * mean},
    }


def test_a_table_is_filled_from_its_sources() -> None:
    rows = {"good": _row(1.0, [1.0] * 20), "bad": _row(0.0, [0.0] * 20)}
    result = {"rows": rows, "left_out": {"asking": "left out: no model"}, "primary": "RR@10"}
    result |= {"clusters": list(range(20)), "costs": {"good": {"dollars": 3}}, "problems": ["It failed."]}
    printed = {"good": (0.9,), "theirs": (0.8,)}
    first = (Figure("RR@10", mean_of("RR@10")),)
    more = (Figure("ms", in_row("latency_ms", "p50")), Figure("$", at("costs", ROW, "dollars"), ",", " alone"))
    spec = TableSpec(
        "Table 1",
        "Toys",
        "first",
        with_printed(every_row, printed),
        (Ours(lambda result: first), Paper((Head("FiQA", paper=True),)), Ours(lambda result: more)),
        printed,
        (Claim("Good beats bad.", beats("good", "bad")),),
        ("A note.", lambda columns: [f"{len(columns)} collection"]),
    )
    table = spec.filled([Column("mine", {"first": result})])
    assert [head.full for head in table.heads] == ["mine RR@10", "paper FiQA", "mine ms", "mine alone $"]
    assert table.rows == (
        Row("good", (1.0, 0.9, 10.0, 3), "shown 1.0"),
        Row("bad", (0.0, None, 0.0, None), "shown 0.0"),
        Row("asking", (None, None, None, None), "", "left out: no model"),
        Row("theirs", (None, 0.8, None, None)),
    )
    assert table.notes == ("A note.", "1 collection")
    assert [verdict.outcome for verdict in table.findings[0].verdicts] == ["agrees"]


def test_a_source_may_look_up_another_name_than_that_of_the_row() -> None:
    result = {"rows": {"512 bm25": _row(0.5, [0.5], "small")}}
    assert mean_of("RR@10", f"{ROW} bm25")(result, "512") == 0.5
    assert in_row("latency_ms", "p50")(result, "small") == 5.0
    assert at("rows", f"{ROW} bm25", "shown")(result, "512") == "shown 0.5"
    assert at("rows", ROW, "shown")(result, "gone") is None
    assert Head("n", paper=True).write(None) == "–"
