"""Writes a report as files: HTML, Markdown, JSON, CSV and TREC runs."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from surefind.bench.html import render
from surefind.bench.movement import in_words
from surefind.bench.terminal import (
    audience,
    cut_into,
    exam_label,
    layout_cells,
    layout_heads,
    mark,
    ordered,
    row_label,
)
from surefind.disk.folders import private_folder
from surefind.disk.sealed import write_sealed
from surefind.store.backend import Spans
from surefind.types import Rankings


def write_files(report: dict[str, Any], folder: Path) -> Path:
    """Writes all files except the TREC runs. Returns the path of the HTML page."""
    private_folder(folder)
    write_sealed(folder / "report.json", report)
    (folder / "report.md").write_text(markdown(report), encoding="utf-8")
    not_drawn = ("query_ids", "query_texts", "query_documents", "query_clusters")
    shown = {key: value for key, value in report.items() if key not in not_drawn}
    (folder / "report.html").write_text(render(shown), encoding="utf-8")
    _write_csv(report, folder / "table.csv")
    return folder / "report.html"


def markdown(report: dict[str, Any]) -> str:
    exam, corpus, primary = report["exam"], report["corpus"], report["primary"]
    measures = report["measures"]
    head = ["configuration", f"{primary} [95%]", "", *measures[1:], "p50 ms", "p95 ms", *layout_heads(report)]
    uses_llm = any(row["calls"] for row in report["rows"])
    head += ["LLM calls", "$ / 1,000"] if uses_llm else []
    lines = [
        f"# {exam_label(exam)}",
        "",
        report["verdict"].replace("\n", "\n\n"),
        "",
        f"{exam['queries']} questions over {corpus['documents']} documents, {cut_into(report)}"
        + (f" (`{corpus['layout']}`)." if not layout_heads(report) else "."),
        "",
        audience(report),
        "",
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
    ]
    for row in ordered(report):
        i = row["measures"][primary]
        cells = [
            f"{mark(report, row)} {row_label(report, row)}".strip(),
            f"{i['mean']:.3f} [{i['low']:.3f}, {i['high']:.3f}]",
            row["letters"],
        ]
        cells += [f"{row['measures'][m]['mean']:.3f}" for m in measures[1:]]
        cells += [f"{row['latency_ms']['p50']:.1f}", f"{row['latency_ms']['p95']:.1f}", *layout_cells(report, row)]
        cells += [f"{row['calls']:.1f}", f"{row['cost_per_1k']:.2f}"] if uses_llm else []
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        "`*` winner, `>` recommended. Rows that share a letter are statistically tied (p >= 0.05 after Holm).",
        "",
    ]
    lines += _llm_costs(report)
    lines += _reranking(report)
    lines += _grouped(report, "families", "family")
    if report["leakage"]:
        lines += [report["leakage"]["text"], "", *_grouped(report, "bands", "lexical overlap")]
    lines += ["```console", f"$ {report['command']}", "```", ""]
    return "\n".join(lines)


def _llm_costs(report: dict[str, Any]) -> list[str]:
    """Calls, time and cost of each stage that calls a language model."""
    lines = [
        f"- {row['name']}, {name}: {stage['calls']:.1f} calls and {stage['p50']:.0f} ms per query, "
        f"${1000 * stage['dollars']:.2f} per 1,000 queries"
        for row in ordered(report)
        for name, stage in row["latency_ms"].get("stages", {}).items()
        if stage.get("calls")
    ]
    return ["Cost of language models:", "", *lines, ""] if lines else []


def _reranking(report: dict[str, Any]) -> list[str]:
    """What each reranker changed, the problems of the run, and the questions that reranking harmed most."""
    lines = [f"- {text}" for row in ordered(report) for text in in_words(row)]
    lines = ["What reranking changed:", "", *lines, ""] if lines else []
    if report["problems"]:
        lines += ["Problems:", "", *(f"- {problem}" for problem in report["problems"]), ""]
    for row in ordered(report):
        for moved in row["reranking"]:
            if moved.get("worst"):
                lines += [f"Questions that {moved['stage']} harmed most in {row['name']}:", ""]
                lines += [f"| change of {moved['measure']} | rank of the first relevant | question |", "|---|---|---|"]
                lines += [_degraded(worst) for worst in moved["worst"]]
                lines.append("")
    return lines


def _degraded(worst: dict[str, Any]) -> str:
    before, after = (rank or "none" for rank in worst["first_relevant"])
    return f"| {worst['change']:+.3f} | {before} → {after} | {_cell(worst['text'])} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _grouped(report: dict[str, Any], key: str, title: str) -> list[str]:
    """A table of the primary measure by family or by overlap band."""
    groups = next((list(row[key]) for row in report["rows"] if row[key]), [])
    if not groups:
        return []
    lines = [f"{report['primary']} by {title}:", "", "| configuration | " + " | ".join(groups) + " |"]
    lines.append("|---" * (len(groups) + 1) + "|")
    for row in (row for row in ordered(report) if row[key]):
        lines.append(f"| {row['name']} | " + " | ".join(f"{row[key][g][report['primary']]:.3f}" for g in groups) + " |")
    return [*lines, ""]


_COLUMNS = (
    "letters",
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


def _write_csv(report: dict[str, Any], path: Path) -> None:
    measures = report["measures"]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        columns = [f"{m} {part}" for m in measures for part in ("mean", "low", "high")]
        writer.writerow(["name", "spec", *columns, *_COLUMNS])
        for row in ordered(report):
            numbers = [row["measures"][m][part] for m in measures for part in ("mean", "low", "high")]
            timing = row["latency_ms"]
            writer.writerow(
                [
                    row["name"],
                    row["spec"],
                    *numbers,
                    row["letters"],
                    timing["p50"],
                    timing["p95"],
                    row["calls"],
                    row["cost_per_1k"],
                    row["index_bytes"],
                    row["layout"],
                    row["chunks"],
                    row["ingest_s_per_doc"],
                    "; ".join(row["aliases"]),
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
