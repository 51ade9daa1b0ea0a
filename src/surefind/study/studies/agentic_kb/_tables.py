"""The tables of layouts and graphs: Tables 1 to 3 and Figure 4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from surefind.bench.plan import on_layout
from surefind.study.scores import finding, row_of
from surefind.study.studies.agentic_kb import _paper as paper
from surefind.study.studies.agentic_kb._chunking import DENSE, HYBRID
from surefind.study.studies.agentic_kb._graph import HEADED, PHRASES, PLAIN, ROWS
from surefind.study.studies.agentic_kb._groups import ALL, cells, heads
from surefind.study.studies.agentic_kb._layouts import LAYOUTS
from surefind.study.tables import problems, why_left_out
from surefind.study.values import Cell, Column, Finding, Head, Row, Table

CHUNKING = ("Table 1", "Table 1, hybrid", "Table 2")
GRAPH = ("Figure 4", "Table 3")
_CLAIMS = (
    ("Hierarchical beats fixed windows on every set.", paper.BASE, "fixed-700-20"),
    ("Hierarchical beats semantic chunks on every set.", paper.BASE, "semantic-80-1-800"),
    ("Context by a language model improves hierarchical chunks (two hops; not SF1H).", paper.AGENTIC_1, paper.BASE),
    ("Context on hierarchical chunks beats segments by a language model.", paper.AGENTIC_1, paper.AGENTIC_2),
)


def chunking(columns: Sequence[Column]) -> list[Table]:
    return [_layouts(columns, DENSE), _layouts(columns, HYBRID), _costs(columns)]


def _layouts(columns: Sequence[Column], ranker: str) -> Table:
    """All layouts of the grid. The paper prints the best of each kind, ranked by vectors."""
    sets = paper.SETS if ranker == DENSE else ()
    rows = [
        Row(
            name,
            cells(columns, "chunking", "groups", on_layout(name, ranker), paper.KEY, sets, _printed(name, ranker)),
            layout,
            why_left_out(columns, "chunking", on_layout(name, ranker)),
        )
        for name, layout in LAYOUTS.items()
    ]
    winners = ", ".join(f"{c.name}: {c.results['chunking'].get('winner', '–')}" for c in columns)
    notes = [
        f"The layout with the highest mean of the four measures by vectors, which later stages use: {winners}.",
        "The longer a passage is, the more often it contains an answer. T1O falls where it is too long.",
        "Semantic layouts keep sections that fit whole, so they are equal if no section is longer than their limits.",
        *problems(columns, "chunking"),
    ]
    if ranker == HYBRID:
        notes = ["The paper ranks by vectors alone. This table ranks the same passages by BM25 and vectors (convex)."]
    return Table(
        "Table 1" if ranker == DENSE else "Table 1, hybrid",
        f"Layouts, ranked by {'vectors' if ranker == DENSE else 'BM25 and vectors'}",
        tuple(_heads(columns, sets)),
        tuple(rows),
        tuple(_claims(columns, ranker)),
        tuple(notes),
    )


def _printed(name: str, ranker: str) -> dict[str, dict[str, float]]:
    return paper.CHUNKING.get(name, {}) if ranker == DENSE else {}


def _heads(columns: Sequence[Column], sets: Sequence[str]) -> list[Head]:
    return heads(columns, "chunking", "groups", paper.KEY, sets)


def _claims(columns: Sequence[Column], ranker: str) -> list[Finding]:
    told = "" if ranker == DENSE else "(said of vectors) "
    return [
        finding(f"{told}{claim}", columns, "chunking", on_layout(better, ranker), on_layout(worse, ranker))
        for claim, better, worse in _CLAIMS
    ]


def _costs(columns: Sequence[Column]) -> Table:
    names = ("s/document", "of it the model", "$/document", "s/query")
    found = [Head(name, column.name, format=".4f") for column in columns for name in names]
    found += [Head(name, "", paper=True) for name in ("s/document", "$/document", "s/query")]
    rows = [
        Row(
            name,
            (*(cell for column in columns for cell in _cost(column, name)), *paper.COSTS.get(name, (None, None, None))),
            layout,
            why_left_out(columns, "chunking", on_layout(name, DENSE)),
        )
        for name, layout in LAYOUTS.items()
    ]
    notes = (
        "Ours: cutting, embedding and indexing on this machine without a cache, and the median query by vectors. The "
        "model's seconds are those of its calls, as many at a time as the settings allow.",
        "The paper's times are those of cutting, on AWS, with vectors and models asked over the network.",
    )
    return Table("Table 2", "What layouts cost", tuple(found), tuple(rows), notes=notes)


def _cost(column: Column, name: str) -> tuple[Cell, ...]:
    result = column.results["chunking"]
    cost, row = result.get("costs", {}).get(name), row_of(result, on_layout(name, DENSE))
    if cost is None or row is None:
        return (None,) * 4
    return cost["seconds"], cost["model_seconds"], cost["dollars"], row["latency_ms"]["p50"] / 1000


# ---------------------------------------------------------------- graphs


def graph(columns: Sequence[Column]) -> list[Table]:
    return [_averages(columns), _multi_hop(columns)]


def _averages(columns: Sequence[Column]) -> Table:
    found = [Head(key, column.name) for column in columns for key in paper.KEY]
    found += [Head("ms/query", column.name, format=",.1f") for column in columns]
    rows = [
        Row(
            name,
            (
                *(_mean(column, name, key) for column in columns for key in paper.KEY),
                *(_milliseconds(column, name) for column in columns),
                paper.AVERAGES.get(name),
            ),
            _spec(columns, name),
            why_left_out(columns, "graph", name),
        )
        for name in ROWS
    ]
    claims = (
        ("Without a graph, agentic context is better than with one.", paper.NO_GRAPH, paper.ON_AGENTIC),
        ("A graph on plain passages is better than one on context.", paper.ON_BASE, paper.ON_AGENTIC),
    )
    own = (
        ("Vectors beat a graph of phrases on the same passages.", PLAIN, PHRASES),
        ("A graph of phrases on plain passages beats one with headings.", PHRASES, HEADED),
    )
    notes = (
        "The paper averages its three sets and prints T1EM in the text. It says that graphs are 4 to 5 times slower.",
        "Graphs by a model: it reads every passage and every question, and edges are the relations that it read. A "
        "graph of phrases needs no model: entities are found by the shape of words, edges by co-occurrence.",
        *problems(columns, "graph"),
    )
    return Table(
        "Figure 4",
        "With and without a graph",
        (*found, Head("T1EM", "", paper=True)),
        tuple(rows),
        (
            *(finding(claim, columns, "graph", better, worse) for claim, better, worse in claims),
            *(replace(finding(claim, columns, "graph", better, worse), paper=False) for claim, better, worse in own),
        ),
        notes,
        "bars",
        drawn=("T1EM",),
    )


def _mean(column: Column, name: str, key: str) -> Cell:
    found: float | None = column.results["graph"].get("groups", {}).get(ALL, {}).get(name, {}).get(key)
    return found


def _milliseconds(column: Column, name: str) -> Cell:
    row = row_of(column.results["graph"], name)
    return None if row is None else float(row["latency_ms"]["p50"])


def _spec(columns: Sequence[Column], name: str) -> str:
    found = [row_of(column.results["graph"], name) for column in columns]
    return next((str(row["shown"]) for row in found if row is not None), "")


def _multi_hop(columns: Sequence[Column]) -> Table:
    sets = paper.SETS[1:]
    rows = [
        Row(
            name,
            cells(columns, "graph", "groups", name, paper.WIDE, sets, paper.GRAPH.get(name, {})),
            _spec(columns, name),
            why_left_out(columns, "graph", name),
        )
        for name in ROWS
    ]
    notes = (
        "Questions with two hops, if the exam has them (`surefind exam write` marks SF2H and MF2H); otherwise all.",
        "The paper says that graphs improve T5EM, MC and BO. By its table that holds for Graph + Hierarchical, except "
        "for BO on MF2H (0.273 against 0.293), and not for Graph + Agentic.",
    )
    return Table(
        "Table 3",
        "Questions with two hops, with and without a graph",
        tuple(heads(columns, "graph", "groups", paper.WIDE, sets)),
        tuple(rows),
        notes=notes,
    )
