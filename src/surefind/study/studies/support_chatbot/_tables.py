"""The tables of the support-chatbot study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from surefind.study.scores import finding, judge, mean, row_of
from surefind.study.studies.support_chatbot import _paper as paper
from surefind.study.studies.support_chatbot._measure import TUNED, UNTUNED
from surefind.study.tables import problems, why_left_out
from surefind.study.values import Cell, Column, Finding, Head, Row, Table, Verdict

RECALL, NDCG = ("R@50", "R@10"), ("nDCG@50", "nDCG@10")
_GAP = "R@50 − R@10"
Printed = Mapping[str, tuple[str, ...]]


def encoders(columns: Sequence[Column]) -> list[Table]:
    champions = ", ".join(f"{column.name}: {column.results['encoders'].get('champion')}" for column in columns)
    best = [str(column.results["encoders"].get("encoder")) for column in columns]
    verdicts = [judge(column, "encoders", one, paper.BM25) for column, one in zip(columns, best, strict=True)]
    claims = [Finding("BM25 is the worst of all.", tuple(verdicts))]
    notes = (
        f"The champion is the best by R@50 ({champions}).",
        "The paper takes gemini_large_03_07 as champion everywhere; on SciDocs, Stella 1.5B has the higher R@50.",
    )
    title = "Encoders and BM25"
    return [
        _table("Table 2", f"{title}: recall", columns, "encoders", RECALL, paper.RECALL, claims, notes),
        _table("Table 11", f"{title}: nDCG", columns, "encoders", NDCG, paper.NDCG),
    ]


def fusion(columns: Sequence[Column]) -> list[Table]:
    with_bm25 = f"{paper.CHAMPION} + {paper.BM25}"
    claims = [
        Finding(
            "Reciprocal rank fusion with a second retriever raises R@10.",
            tuple(_best_against_champion(column) for column in columns),
        ),
        finding("BM25 as the second retriever lowers R@10.", columns, "fusion", paper.CHAMPION, with_bm25),
    ]
    notes = (
        "The text says that R@10 improved on all four sets. On HotpotQA every pair of Table 3 is below the champion "
        "(93.4%, 92.6%, 90.8% and 89.1% against 94.6%).",
    )
    title = "Reciprocal rank fusion with the champion"
    return [
        _table("Table 3", f"{title}: recall", columns, "fusion", RECALL, paper.FUSED, claims, notes),
        _table("Table 12", f"{title}: nDCG", columns, "fusion", NDCG, paper.FUSED_NDCG),
    ]


def _best_against_champion(column: Column) -> Verdict:
    """Whether the best pair beats the champion."""
    result = column.results["fusion"]
    others = [name for name in result.get("rows", {}) if name != paper.CHAMPION]
    best = max(others, key=lambda name: mean(result, name, "R@10") or 0.0, default="a second retriever")
    return judge(column, "fusion", best, paper.CHAMPION)


def concatenation(columns: Sequence[Column]) -> list[Table]:
    notes = (
        "The paper finds concatenation and RRF within 0.3 points of each other. Its Tables 3 and 9 differ by up to "
        "2.2 points of R@10 (Help Articles with text-embedding-3-large: 73.2% and 71.0%).",
    )
    title = "Concatenated vectors"
    return [
        _table("Table 9", f"{title}: recall", columns, "concatenation", RECALL, paper.JOINED, notes=notes),
        _table("Table 10", f"{title}: nDCG", columns, "concatenation", NDCG, paper.JOINED_NDCG),
    ]


def reranking(columns: Sequence[Column]) -> list[Table]:
    claims = [
        finding(
            "The cross-encoder lowers R@10 of the champion on every set.",
            columns,
            "reranking",
            paper.CHAMPION,
            paper.CE,
        ),
        finding("The language model raises it on two of four sets.", columns, "reranking", paper.LLM, paper.CHAMPION),
        finding("The cross-encoder raises R@10 of BM25.", columns, "reranking", paper.BM25_CE, paper.BM25),
    ]
    notes = (
        "Reranking the first 50 cannot change R@50. The paper's does: 84.3% to 84.0% on FIQA, and with BM25 38.1% to "
        "40.2%, on Help Articles 54.3% to 67.9%. BM25 + LLM Reranking repeats the figures of BM25 on FIQA and "
        "HotpotQA.",
        "The same reranking of the same champion has R@10 64.7% and 24.9% in Table 4, and 63.5% and 26.5% in Table 7.",
        *problems(columns, "reranking"),
    )
    title = "Reranking 50 passages of the best of Table 3"
    first = _table("Table 4", f"{title}: recall", columns, "reranking", RECALL, paper.RERANKED, claims, notes)
    return [
        _timed(first, columns),
        _table("Table 13", f"{title}: nDCG", columns, "reranking", NDCG, paper.RERANKED_NDCG),
        _cost(columns),
    ]


def _timed(table: Table, columns: Sequence[Column]) -> Table:
    """Adds milliseconds per question, and dollars per 1,000 questions, to the rows."""
    keys = (("p50 ms", ",.1f"), ("$ / 1,000", ",.2f"))
    heads = tuple(Head(text, column.name, format=how) for column in columns for text, how in keys)
    rows = [replace(row, cells=(*row.cells, *_spent(columns, row.name))) for row in table.rows]
    return replace(table, heads=(*table.heads, *heads), rows=tuple(rows))


def _spent(columns: Sequence[Column], name: str) -> list[Cell]:
    found = [row_of(column.results["reranking"], name) for column in columns]
    pairs = [(None, None) if row is None else (row["latency_ms"]["p50"], row["cost_per_1k"]) for row in found]
    return [cell for pair in pairs for cell in pair]


def _cost(columns: Sequence[Column]) -> Table:
    rows = []
    for name in (paper.LLM, paper.SLIDE):
        cells = [None if (row := row_of(c.results["reranking"], name)) is None else row["cost_per_1k"] for c in columns]
        rows.append(Row(name, (*cells, None), left_out=why_left_out(columns, "reranking", name)))
    rows += [Row(model, (*([None] * len(columns)), dollars)) for model, dollars in paper.COST.items()]
    heads = (*(Head("ours", column.name, format=",.2f") for column in columns), Head("$", paper=True, format=",.2f"))
    notes = (
        "The paper assumes 50 passages of 512 tokens, and counts what the model reads. Ours is what the calls cost.",
    )
    return Table("Table 5", "Dollars per 1,000 questions", heads, tuple(rows), notes=notes)


def hyde(columns: Sequence[Column]) -> list[Table]:
    claims = [finding("HyDE lowers R@10 (66.4% to 62.8%).", columns, "hyde", "Baseline", "HyDE")]
    return [_table("Appendix E", "HyDE", columns, "hyde", RECALL, paper.HYDE, claims, sets=("Help Articles",))]


def sizes(columns: Sequence[Column]) -> list[Table]:
    heads = [Head(measure, f"{c.name}, {who}", format=".1%") for c in columns for who in _WHO for measure in RECALL]
    heads += [Head(measure, who, paper=True) for who in ("Stella 1.5B", paper.BM25) for measure in RECALL]
    rows = []
    for size in paper.SIZES:
        cells: list[Cell] = [
            mean(column.results["chunks"], f"{size} {who}", measure)
            for column in columns
            for who in _WHO
            for measure in RECALL
        ]
        rows.append(Row(f"{size} tokens", (*cells, *paper.CHUNKS[size])))
    claims = (
        finding("Chunks of 2048 tokens beat chunks of 512.", columns, "chunks", "2048 encoder", "512 encoder"),
        finding("The same with BM25.", columns, "chunks", f"2048 {paper.BM25}", f"512 {paper.BM25}"),
    )
    notes = (
        "The paper recommends 2048 tokens. In its table 4096 is better, in both columns of both retrievers.",
        "An encoder reads the beginning of a passage that is longer than its limit (MiniLM: 256 tokens).",
    )
    return [Table("Table 6", "Chunk sizes", tuple(heads), tuple(rows), claims, notes)]


_WHO = ("encoder", paper.BM25)


def prompts(columns: Sequence[Column]) -> list[Table]:
    claims = [
        finding("An example in the prompt helps on SciDocs, not on FIQA.", columns, "prompts", paper.ONE, paper.ZERO),
        finding("Meta-prompting helps on both.", columns, "prompts", paper.META, paper.ZERO),
    ]
    notes = problems(columns, "prompts")
    sets = ("FIQA", "SciDocs")
    return [_table("Table 7", "Prompts", columns, "prompts", RECALL, paper.PROMPTS, claims, notes, sets)]


def tuning(columns: Sequence[Column]) -> list[Table]:
    heads = [Head("R@10", column.name, format=".1%") for column in columns]
    heads += [Head(measure, "Help Articles", paper=True) for measure in ("nDCG@5", "nDCG@10", "R@10", "R@50")]
    rows = []
    for name in (UNTUNED, TUNED):
        mine = [column.results["fine-tuning"].get("figures", {}).get(name) for column in columns]
        rows.append(Row(name, (*mine, *([None] * 4)), left_out=why_left_out(columns, "fine-tuning", name)))
    rows += [Row(name, (*([None] * len(columns)), *figures)) for name, figures in paper.TUNED.items()]
    notes = (
        "Before and after are measured on half of the questions that the other tables do not ask; the other half "
        "trains.",
        "The paper says that fine-tuning on questions enhances recall metrics. Its R@50 rises (83.5% to 85.3%); its "
        "R@10, nDCG@10 and nDCG@5 fall (63.3% to 63.1%, 52.4% to 51.2%, 48.2% to 46.1%).",
    )
    return [Table("Table 8", "Fine-tuning", tuple(heads), tuple(rows), notes=notes)]


# ---------------------------------------------------------------- one table


def _table(
    number: str,
    title: str,
    columns: Sequence[Column],
    stage: str,
    measures: tuple[str, str],
    printed: Printed,
    claims: Sequence[Finding] = (),
    notes: Sequence[str] = (),
    sets: Sequence[str] = paper.SETS,
) -> Table:
    """Our rows with our figures, then the rows of the paper that we have no counterpart of."""
    heads = [
        Head(text, column.name, format=".1%")
        for column in columns
        for text in (*measures, *([_GAP] if measures == RECALL else []))
    ]
    wide = len(heads)
    heads += [Head(measure, one, paper=True) for one in sets for measure in measures]
    empty: tuple[Cell, ...] = (None,) * (len(heads) - wide)
    rows = [
        Row(name, (*_cells(columns, stage, name, measures), *printed.get(name, empty)), _spec(columns, stage, name),
            why_left_out(columns, stage, name))
        for name in _names(columns, stage)
    ]  # fmt: skip
    ours = {row.name for row in rows}
    rows += [Row(name, (*((None,) * wide), *figures)) for name, figures in printed.items() if name not in ours]
    return Table(number, title, tuple(heads), tuple(rows), tuple(claims), tuple(notes))


def _names(columns: Sequence[Column], stage: str) -> list[str]:
    results = [column.results.get(stage, {}) for column in columns]
    rows = [item for result in results for item in result.get("rows", {}).items()]
    measured = [name for row, made in rows for name in (row, *made["aliases"])]
    return list(dict.fromkeys([*measured, *(name for result in results for name in result.get("left_out", {}))]))


def _cells(columns: Sequence[Column], stage: str, name: str, measures: tuple[str, str]) -> list[Cell]:
    cells: list[Cell] = []
    for column in columns:
        result = column.results.get(stage, {})
        deep, shallow = (mean(result, name, measure) for measure in measures)
        cells += [deep, shallow]
        if measures == RECALL:
            cells.append(None if deep is None or shallow is None else deep - shallow)
    return cells


def _spec(columns: Sequence[Column], stage: str, name: str) -> str:
    rows = [row_of(column.results.get(stage, {}), name) for column in columns]
    return next((str(row["shown"]) for row in rows if row is not None), "")
