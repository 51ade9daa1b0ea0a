"""Reports of benchmarks for tests, whole but small."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from surefind import Pipeline
from surefind.lab.bench.latency import Timing
from surefind.lab.bench.report import BenchReport, CorpusFacts, Environment, ExamFacts, ReportRow
from surefind.lab.bench.saved import write_report
from surefind.lab.measure.statistics import Interval

TIMING = Timing(2.0, 3.0, 2.1, 1.9, 2.2, {})


def row(name: str, spec: str = "bm25", layout: str = "", aliases: tuple[str, ...] = (), **more: Any) -> ReportRow:
    """A row of a report without questions."""
    made = ReportRow(
        name=name, aliases=aliases, pipeline=name, spec=str(Pipeline.parse(spec)), layout=layout,
        measures={"nDCG@10": Interval(0.5, 0.4, 0.6)}, letters="a", latency_ms=TIMING, calls=0.0, cost_per_1k=0.0,
        families={}, bands={}, index_bytes=1000, reranking=(), chunks=10, ingest_s_per_doc=None, held_out={},
        scores=(),
    )  # fmt: skip
    return replace(made, **more)


def bench_report(*rows: ReportRow, **more: Any) -> BenchReport:
    """A report with these rows. It compares layouts if a row has one, and recommends the first row."""
    names = [one.name for one in rows] or ["none"]
    parts: dict[str, Any] = {
        "surefind": "0.1", "created": "2026-03-04T05:06:07+00:00", "command": "surefind bench", "audience": "everybody",
        "groups": (),
        "environment": Environment("3.12", "Linux", 2, {}),
        "exam": ExamFacts(name="staff", version=1, fingerprint="e", queries=0, families={}, dropped=0, restricted=0),
        "corpus": CorpusFacts(documents=2, withheld=0, chunks=10, layout="whole", fingerprint="c"), "measures": (),
        "primary": "nDCG@10", "confidence": 0.95, "compares_layouts": any(one.layout for one in rows), "rows": rows,
        "query_ids": (),
        "query_texts": (), "query_documents": (), "query_clusters": (), "winner": names[0], "ties": (),
        "recommended": names[0], "recommendation": None, "verdict": "Use it.", "details": (), "comparisons": (),
        "leakage": None, "alpha_sweep": None, "memory_bytes": 1, "problems": (),
        "queries": (), "chunks": (), "learned": (), "model_checks": (),
    }  # fmt: skip
    return BenchReport(**parts | more)


def save_report(kb: Path, folder: str, *rows: ReportRow, age: float = 0, **more: Any) -> Path:
    """Writes a report into the knowledge base, `age` seconds ago, and returns its folder. It is for the owner, unless
    `more` says otherwise."""
    path = kb / ".surefind" / "reports" / folder / "report.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_report(bench_report(*rows, **{"groups": ("*",), **more}), path)
    then = path.stat().st_mtime - age
    os.utime(path, (then, then))
    return path.parent
