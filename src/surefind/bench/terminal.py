"""Prints a report as a table in the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from surefind.bench.left_out import left_out_text
from surefind.bench.movement import in_words
from surefind.bench.plan import label

_ORACLES = ("star", "best")


def show(report: dict[str, Any], console: Console) -> None:
    primary = report["primary"]
    table = Table(box=None, pad_edge=False, header_style="bold")
    # Layouts have long names: two lines are better than a table with truncated figures.
    table.add_column("configuration", no_wrap=not layout_heads(report), overflow="fold")
    table.add_column(f"{primary} [95%]", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for measure in report["measures"][1:]:
        table.add_column(measure, justify="right", no_wrap=True, min_width=5)
    table.add_column("p50 ms", justify="right", no_wrap=True, min_width=6)
    table.add_column("p95 ms", justify="right", no_wrap=True, min_width=6)
    for title in layout_heads(report):
        table.add_column(title, justify="right", no_wrap=True)
    uses_llm = any(row["calls"] for row in report["rows"])
    for heading in ("LLM calls", "$ / 1,000") if uses_llm else ():
        table.add_column(heading, justify="right", no_wrap=True)
    for row in ordered(report):
        interval = row["measures"][primary]
        table.add_row(
            f"{mark(report, row)} {row_label(report, row)}",
            f"{interval['mean']:.3f} [{interval['low']:.3f}, {interval['high']:.3f}]",
            row["letters"],
            *(f"{row['measures'][m]['mean']:.3f}" for m in report["measures"][1:]),
            f"{row['latency_ms']['p50']:.1f}",
            f"{row['latency_ms']['p95']:.1f}",
            *layout_cells(report, row),
            *([f"{row['calls']:.1f}", f"{row['cost_per_1k']:.2f}"] if uses_llm else []),
        )
    exam, corpus = report["exam"], report["corpus"]
    console.print(
        f"{exam_label(exam)}: {exam['queries']} questions over {corpus['documents']} documents, {cut_into(report)}."
    )
    console.print(audience(report))
    console.print(table)
    console.print("* winner, > recommended. Rows that share a letter are statistically tied (p >= 0.05 after Holm).")
    for row in ordered(report):
        for text in in_words(row):
            console.print(text, highlight=False)
    for problem in report["problems"]:
        console.print(problem, style="yellow")
    if (sweep := report["alpha_sweep"] or {}).get("fuser") == "tm2c2":
        oracles = (f"{sweep[key]['mean']:.3f} [{sweep[key]['low']:.3f}, {sweep[key]['high']:.3f}]" for key in _ORACLES)
        console.print(
            "Oracles, which know the answers: {} with the closed-form α* of each question, {} with the best α of each "
            "question.".format(*oracles)
        )
    if report["leakage"]:
        console.print(report["leakage"]["text"])
    if said := left_out_text(exam):
        console.print(said)
    print_verdict(console, report["verdict"])


def print_verdict(console: Console, verdict: str) -> None:
    """Prints the recommendation in bold, and the paragraphs that explain it below."""
    first, *later = verdict.split("\n")
    console.print(first, style="bold")
    for paragraph in later:
        console.print(paragraph)


def layouts(report: dict[str, Any]) -> set[str]:
    return {row["layout"] for row in report["rows"]}


def audience(report: dict[str, Any]) -> str:
    """Who may read the report, because it quotes documents, and how many documents it leaves out."""
    if "audience" not in report:  # a report of an earlier version
        return ""
    withheld = report["corpus"].get("withheld", 0)
    left_out = f" {withheld} restricted documents are left out (--as GROUP includes them)." if withheld else ""
    return f"Audience: {report['audience']}.{left_out}"


def cut_into(report: dict[str, Any]) -> str:
    """The number of passages, or the number of layouts if the rows have different ones."""
    several = len(layouts(report))
    return f"cut in {several} ways" if several > 1 else f"{report['corpus']['chunks']} passages"


def layout_heads(report: dict[str, Any]) -> list[str]:
    """The column headings about layouts; empty if all rows have the same layout."""
    return ["passages", "index MB", "ingest s/doc"] if len(layouts(report)) > 1 else []


def layout_cells(report: dict[str, Any], row: dict[str, Any]) -> list[str]:
    if not layout_heads(report):
        return []
    seconds = row["ingest_s_per_doc"]
    return [f"{row['chunks']:,}", f"{row['index_bytes'] / 1e6:.2f}", "" if seconds is None else f"{seconds:.3f}"]


def exam_label(exam: dict[str, Any]) -> str:
    return f"{exam['name']} v{exam['version']}" if exam["version"] else str(exam["name"])


def row_label(report: dict[str, Any], row: dict[str, Any]) -> str:
    """The names of a row, and how many questions it was asked if that is a part of them."""
    part = f", asked {row['asked']} of {report['exam']['queries']}" if in_part(report, row) else ""
    return label(row["name"], row["aliases"]) + part


def in_part(report: dict[str, Any], row: dict[str, Any]) -> bool:
    """Whether a row was asked only a part of the questions, so that its score is a rough estimate."""
    return row.get("asked") not in (None, report["exam"]["queries"])


def ordered(report: dict[str, Any]) -> list[dict[str, Any]]:
    """The report's rows, best first; those that were asked a part of the questions come last."""
    return sorted(report["rows"], key=lambda row: (in_part(report, row), -row["measures"][report["primary"]]["mean"]))


def mark(report: dict[str, Any], row: dict[str, Any]) -> str:
    """`*` for the winner, `>` for the recommended configuration, two characters wide."""
    winner, recommended = row["name"] == report["winner"], row["name"] == report["recommended"]
    return ("*" if winner else " ") + (">" if recommended else " ")
