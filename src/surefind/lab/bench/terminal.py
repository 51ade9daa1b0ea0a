"""Prints a report as a table in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from surefind.lab.bench.plan import label, left_out_text
from surefind.lab.bench.report import BenchReport, ReportRow
from surefind.lab.bench.reranking import in_words
from surefind.lab.measure.statistics import Interval


def show(report: BenchReport, console: Console) -> None:
    primary = report.primary
    table = Table(box=None, pad_edge=False, header_style="bold")
    # Layouts have long names: two lines are better than a table with truncated figures.
    table.add_column("configuration", no_wrap=not layout_heads(report), overflow="fold")
    table.add_column(f"{primary} [95%]", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for measure in report.measures[1:]:
        table.add_column(measure, justify="right", no_wrap=True, min_width=5)
    table.add_column("unjudged", justify="right", no_wrap=True)
    table.add_column("p50 ms", justify="right", no_wrap=True, min_width=6)
    table.add_column("p95 ms", justify="right", no_wrap=True, min_width=6)
    for title in (*layout_heads(report), *llm_heads(report)):
        table.add_column(title, justify="right", no_wrap=True)
    for row in report.ordered:
        table.add_row(f"{mark(report, row)} {label(row.name, row.aliases)}", *figures(report, row))
    console.print(
        f"{report.exam.label}: {report.exam.queries} questions over {report.corpus.documents} documents, "
        f"{cut_into(report)}."
    )
    console.print(audience(report))
    console.print(table)
    console.print("* winner, > recommended. Rows that share a letter are statistically tied (p >= 0.05 after Holm).")
    for row in report.ordered:
        for text in in_words(row):
            console.print(text, highlight=False)
    for problem in report.problems:
        console.print(problem, style="yellow")
    if (sweep := report.alpha_sweep) and sweep.fuser == "tm2c2":
        console.print(
            f"Oracles, which know the answers: {interval_text(sweep.star)} with the closed-form α* of each question, "
            f"{interval_text(sweep.best)} with the best α of each question."
        )
    if report.leakage:
        console.print(report.leakage.text)
    if said := left_out_text(report.exam.dropped, report.exam.restricted):
        console.print(said)
    print_verdict(report, console)


def print_verdict(report: BenchReport, console: Console) -> None:
    """Prints the verdict in bold, and what explains it below."""
    console.print(report.verdict, style="bold", highlight=False)
    for paragraph in report.details:
        console.print(paragraph)


def figures(report: BenchReport, row: ReportRow) -> list[str]:
    """The cells of a row in the table, without its name."""
    return [
        interval_text(row.measures[report.primary]),
        row.letters,
        *(f"{row.measures[measure].mean:.3f}" for measure in report.measures[1:]),
        "" if row.unjudged is None else f"{row.unjudged:.2f}",
        f"{row.latency_ms.p50:.1f}",
        f"{row.latency_ms.p95:.1f}",
        *_layout_cells(report, row),
        *([f"{row.calls:.1f}", f"{row.cost_per_1k:.2f}"] if report.uses_llm else []),
    ]


def interval_text(interval: Interval) -> str:
    return f"{interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def audience(report: BenchReport) -> str:
    """Who may read the report, because it quotes documents, and how many documents it leaves out."""
    withheld = report.corpus.withheld
    left_out = f" {withheld} restricted documents are left out (--as GROUP includes them)." if withheld else ""
    return f"Audience: {report.audience}.{left_out}"


def cut_into(report: BenchReport) -> str:
    """The number of passages, or the number of layouts if the rows have different ones."""
    several = len(report.layouts)
    return f"cut in {several} ways" if several > 1 else f"{report.corpus.chunks} passages"


def layout_heads(report: BenchReport) -> list[str]:
    """The column headings about layouts; empty if all rows have the same layout."""
    return ["passages", "index MB", "ingest s/doc"] if len(report.layouts) > 1 else []


def llm_heads(report: BenchReport) -> list[str]:
    """The column headings about language models; empty if no row calls one."""
    return ["LLM calls", "$ / 1,000"] if report.uses_llm else []


def _layout_cells(report: BenchReport, row: ReportRow) -> list[str]:
    if not layout_heads(report):
        return []
    seconds = row.ingest_s_per_doc
    return [f"{row.chunks or 0:,}", f"{(row.index_bytes or 0) / 1e6:.2f}", "" if seconds is None else f"{seconds:.3f}"]


def mark(report: BenchReport, row: ReportRow) -> str:
    """`*` for the winner, `>` for the recommended configuration, two characters wide."""
    return ("*" if row.name == report.winner else " ") + (">" if row.name == report.recommended else " ")
