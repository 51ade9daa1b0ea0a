"""Writes a report as files: HTML, Markdown, JSON, CSV and TREC runs."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import numpy as np

from surefind.base.disk.sealed import private_folder
from surefind.base.types import Rankings
from surefind.engine.store.backend import Spans
from surefind.lab.bench.html import render
from surefind.lab.bench.plan import label
from surefind.lab.bench.report import BenchReport, HarmedQuestion, Means
from surefind.lab.bench.reranking import in_words
from surefind.lab.bench.saved import REPORT_FILE, write_report
from surefind.lab.bench.terminal import audience, cut_into, figures, layout_heads, llm_heads, mark


def write_files(report: BenchReport, folder: Path) -> Path:
    """Writes all files except the TREC runs. Returns the path of the HTML page."""
    private_folder(folder)
    write_report(report, folder / REPORT_FILE)
    (folder / "report.md").write_text(markdown(report), encoding="utf-8")
    (folder / "report.html").write_text(render(report), encoding="utf-8")
    _write_csv(report, folder / "table.csv")
    return folder / "report.html"


def markdown(report: BenchReport) -> str:
    exam, corpus, measures = report.exam, report.corpus, report.measures
    head = ["configuration", f"{report.primary} [95%]", "", *measures[1:], "unjudged", "p50 ms", "p95 ms"]
    head += [*layout_heads(report), *llm_heads(report)]
    lines = [
        f"# {exam.label}",
        "",
        "\n\n".join([*report.verdict.split("\n"), *report.details]),
        "",
        f"{exam.queries} questions over {corpus.documents} documents, {cut_into(report)}"
        + (f" (`{corpus.layout}`)." if not layout_heads(report) else "."),
        "",
        audience(report),
        "",
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
    ]
    for row in report.ordered:
        cells = [f"{mark(report, row)} {label(row.name, row.aliases)}".strip(), *figures(report, row)]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        "`*` winner, `>` recommended. Rows that share a letter are statistically tied (p >= 0.05 after Holm).",
        "",
    ]
    lines += _llm_costs(report)
    lines += _reranking(report)
    lines += _grouped(report, {row.name: row.families for row in report.ordered}, "family")
    if report.leakage:
        bands = {row.name: row.bands for row in report.ordered}
        lines += [report.leakage.text, "", *_grouped(report, bands, "lexical overlap")]
    lines += ["```console", f"$ {report.command}", "```", ""]
    return "\n".join(lines)


def _llm_costs(report: BenchReport) -> list[str]:
    """Calls, time and cost of each stage that calls a language model."""
    lines = [
        f"- {row.name}, {name}: {stage.calls:.1f} calls and {stage.p50:.0f} ms per query, "
        f"${1000 * (stage.dollars or 0.0):.2f} per 1,000 queries"
        for row in report.ordered
        for name, stage in row.latency_ms.stages.items()
        if stage.calls
    ]
    return ["Cost of language models:", "", *lines, ""] if lines else []


def _reranking(report: BenchReport) -> list[str]:
    """What each reranker changed, the problems of the run, and the questions that reranking harmed most."""
    lines = [f"- {text}" for row in report.ordered for text in in_words(row)]
    lines = ["What reranking changed:", "", *lines, ""] if lines else []
    if report.problems:
        lines += ["Problems:", "", *(f"- {problem}" for problem in report.problems), ""]
    for row in report.ordered:
        for moved in row.reranking:
            if moved.worst:
                lines += [f"Questions that {moved.stage} harmed most in {row.name}:", ""]
                lines += [f"| change of {moved.measure} | rank of the first relevant | question |", "|---|---|---|"]
                lines += [_degraded(worst) for worst in moved.worst]
                lines.append("")
    return lines


def _degraded(worst: HarmedQuestion) -> str:
    before, after = (rank or "none" for rank in worst.first_relevant)
    return f"| {worst.change:+.3f} | {before} → {after} | {_cell(worst.text)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _grouped(report: BenchReport, rows: Mapping[str, Means], title: str) -> list[str]:
    """A table of the primary measure by family or by overlap band. `rows` has the means by the name of the row."""
    groups = next((list(means) for means in rows.values() if means), [])
    if not groups:
        return []
    lines = [f"{report.primary} by {title}:", "", "| configuration | " + " | ".join(groups) + " |"]
    lines.append("|---" * (len(groups) + 1) + "|")
    for name, means in rows.items():
        if means:
            lines.append(f"| {name} | " + " | ".join(f"{means[g][report.primary]:.3f}" for g in groups) + " |")
    return [*lines, ""]


_COLUMNS = (
    "letters",
    "unjudged",
    "p50_ms",
    "p95_ms",
    "calls",
    "cost_per_1k",
    "index_bytes",
    "layout",
    "passages",
    "ingest_s_per_doc",
    "aliases",
)


def _write_csv(report: BenchReport, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        columns = [f"{m} {part}" for m in report.measures for part in ("mean", "low", "high")]
        writer.writerow(["name", "spec", *columns, *_COLUMNS])
        for row in report.ordered:
            intervals = (row.measures[measure] for measure in report.measures)
            writer.writerow(
                [
                    row.name,
                    row.spec,
                    *(number for interval in intervals for number in (interval.mean, interval.low, interval.high)),
                    row.letters,
                    row.unjudged,
                    row.latency_ms.p50,
                    row.latency_ms.p95,
                    row.calls,
                    row.cost_per_1k,
                    row.index_bytes,
                    row.layout,
                    row.chunks,
                    row.ingest_s_per_doc,
                    "; ".join(row.aliases),
                ]
            )


def write_runs(
    folder: Path,
    names: Sequence[str],
    rankings: Sequence[Rankings],
    queries: Sequence[str],
    spans: Sequence[Spans],
) -> None:
    """Writes one TREC run per configuration: documents, each at the rank of its first chunk; spaces in ids are %20.

    trec_eval sorts by score in single precision and breaks ties in its own way. A score that would be equal to the one
    before it is therefore written as the next lower number, so that trec_eval sees the ranking that was measured here.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, ranking, where in zip(names, rankings, spans, strict=True):
        tag = re.sub(r"[^\w.=-]+", "_", name).strip("_")
        with (folder / f"{tag}.trec").open("w", encoding="utf-8") as file:
            for q, query in enumerate(queries):
                ids, scores = ranking.row(q)
                seen: dict[str, float] = {}
                for chunk_id, score in zip(ids.tolist(), scores.tolist(), strict=True):
                    seen.setdefault(where.document(chunk_id), score)
                last = np.float32(np.inf)
                for rank, (document, score) in enumerate(seen.items(), 1):
                    last = min(np.float32(score), np.nextafter(last, np.float32(-np.inf)))
                    file.write(f"{query} Q0 {quote(document, safe='/')} {rank} {last:.9g} {tag}\n")
