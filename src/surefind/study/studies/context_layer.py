"""`context-layer`: BM25, vectors and five fusions on known-item questions (Company Context Layer Retrieval Benchmark).

The page announces a table of fifteen configurations, but prints only its heading. The text names four of the rows:
BM25, vectors alone, RRF with k = 60 and vectors counted twice (then in production), and convex fusion with α = 0.3. It
gives a figure for the last three: 0.038, 0.082 and 0.729 nDCG@10. The parameters of the other rows are ours. RSF of two
retrievers is convex fusion with α = 0.5, so the two share a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from surefind.bench.plan import Contender, preset_module
from surefind.study.desk import Desk
from surefind.study.scores import finding, row_of, summary
from surefind.study.stage import Before, Stage, Study
from surefind.study.tables import measured_rows, ours, problems
from surefind.study.values import Cell, Column, Head, Row, Table

_PRESET = preset_module("context-layer")
_CONTENDERS = {
    **{name: text for name, text in _PRESET.CONTENDERS.items() if name != "DBSF"},
    "DBSN": "bm25 + dense >> dbsn",
}
"""Those of the preset, with the plain z-scores of the page in place of `dbsf`, which limits them."""
_PRINTED = {
    "Vector": {"nDCG@10": 0.038},
    "RRF k=60 (vector 2:1)": {"nDCG@10": 0.082},
    "Convex α=0.3": {"nDCG@10": 0.729},
}
_QUESTIONS = {
    "heading_direct": 505,
    "entity_lookup": 537,
    "heading_paraphrase": 311,
    "exact_phrase": 213,
    "first_sentence": 140,
}
_CORPUS = {"questions": 1706, "documents": 109, "passages": 1974}
_BY_KIND = ("BM25", "Vector", "Convex α=0.3")
_STAGE = "search"


def _contenders(desk: Desk, before: Before) -> list[Contender]:
    return desk.contenders(_CONTENDERS)


def _measure(desk: Desk, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    scored = desk.score(allowed, _PRESET.MEASURES)
    return summary(scored, desk.latency(scored))


def _tables(columns: Sequence[Column]) -> list[Table]:
    return [_results(columns), _kinds(columns), _corpus(columns)]


def _results(columns: Sequence[Column]) -> Table:
    names = list(_CONTENDERS)
    heads = [*ours(columns, _PRESET.MEASURES), Head("nDCG@10", "paper", paper=True)]
    rows = measured_rows(columns, _STAGE, names, _PRESET.MEASURES, _PRINTED, ["nDCG@10"])
    heads += [Head("p50 ms", column.name, format=".1f") for column in columns]
    timed = [Row(row.name, (*row.cells, *_milliseconds(columns, row)), row.spec, row.left_out) for row in rows]
    claims = (
        ("BM25 beats vectors (the text, without a figure of BM25).", "BM25", "Vector"),
        (
            "Convex α=0.3 beats RRF k=60 with vectors counted twice (0.729 against 0.082).",
            "Convex α=0.3",
            "RRF k=60 (vector 2:1)",
        ),
        ("Convex fusion beats RRF, because RRF discards how high scores are.", "Convex α=0.3", "RRF k=60"),
    )
    return Table(
        "Results",
        "Fifteen configurations of BM25, vectors and five fusions",
        tuple(heads),
        tuple(timed),
        tuple(finding(claim, columns, _STAGE, better, worse) for claim, better, worse in claims),
        (
            "The paper prints the heading of this table and none of its rows. Its text names four rows and gives three "
            "figures: vectors, RRF k=60 with vectors 2:1, convex α=0.3; BM25 has none. The other parameters are ours.",
            "0.038 nDCG@10 is what a random order of 109 documents reaches (0.042): the paper's vectors were at chance "
            "level, so its figures of fusions with vectors say little about fusion.",
            *problems(columns, _STAGE),
        ),
    )


def _milliseconds(columns: Sequence[Column], row: Row) -> list[Cell]:
    tables = [column.results[_STAGE].get("rows", {}) for column in columns]
    return [
        next((one["latency_ms"]["p50"] for one in rows.values() if one["shown"] == row.spec), None) for rows in tables
    ]


def _kinds(columns: Sequence[Column]) -> Table:
    """The kinds of questions: how many there are, and the primary measure of three configurations in each."""
    counted: list[Counter[str]] = [Counter(column.results[_STAGE].get("families", [])) for column in columns]
    kinds = dict.fromkeys([*_QUESTIONS, *(kind for counts in counted for kind in sorted(counts))])
    heads = [Head("questions", "paper", paper=True, format=",")]
    for column in columns:
        heads += [Head("questions", column.name, format=","), *(Head(name, column.name) for name in _BY_KIND)]
    rows = []
    for kind in kinds:
        cells: list[Cell] = [_QUESTIONS.get(kind)]
        for column, counts in zip(columns, counted, strict=True):
            cells += [counts[kind], *(_mean_of_kind(column, name, kind) for name in _BY_KIND)]
        rows.append(Row(kind, tuple(cells)))
    notes = ("The paper gives the number of questions of each kind, and no score by kind. Ours is nDCG@10.",)
    return Table("Query categories", "Questions by kind", tuple(heads), tuple(rows), notes=notes)


def _mean_of_kind(column: Column, name: str, kind: str) -> float | None:
    result = column.results[_STAGE]
    row = row_of(result, name)
    scores = (
        []
        if row is None
        else [s for s, family in zip(row["scores"], result["families"], strict=True) if family == kind]
    )
    return sum(scores) / len(scores) if scores else None


def _corpus(columns: Sequence[Column]) -> Table:
    heads = [*(Head("ours", column.name, format=",") for column in columns), Head("paper", "", paper=True, format=",")]
    rows = [
        Row(what, (*(column.results[_STAGE].get(what) for column in columns), figure))
        for what, figure in _CORPUS.items()
    ]
    layouts = (*(column.results[_STAGE].get("layout") for column in columns), "~500 tokens, 50 overlap")
    rows.append(Row("layout", layouts))
    return Table("Corpus", "Documents, passages and questions", tuple(heads), tuple(rows))


STUDY = Study(
    "Company Context Layer: retrieval benchmark",
    "Company Context Layer Retrieval Benchmark (1,706 questions over 109 files of a credit union)",
    (Stage(_STAGE, ("Results", "Query categories", "Corpus"), _measure, _tables, _contenders),),
    layout="fixed(tokens=500, overlap=50)",
)
