"""Writes the figures of the bundled sample into the README and the pages: `python scripts/sample_figures.py`.

One run makes them all: what `make demo` runs, and the benchmarks of docs/first-knowledge-base.md. Its figures are kept
in docs/results/sample.json, and the parts of pages between `<!-- sample: NAME -->` and `<!-- /sample -->` are written
from that file. `--check` runs nothing, and exits with 1 if a page says something else than the file.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

from surefind.doors.cli.demo import ENCODERS, sample_folder, sample_questions, sample_vectors
from surefind.kb import KnowledgeBase
from surefind.lab.bench.plan import label
from surefind.lab.bench.report import BenchReport
from surefind.lab.bench.saved import REPORTS, read_report
from surefind.lab.bench.terminal import figures, mark

ROOT = Path(__file__).parent.parent
FIGURES = ROOT / "docs" / "results" / "sample.json"
PAGES = ("README.md", "docs/reading-a-report.md", "docs/first-knowledge-base.md")
_PART = re.compile(r"(<!-- sample: (.+?) -->)(.*?)(<!-- /sample -->)", re.DOTALL)
_WIDTH = 140
_HEADS = ("nDCG@10 [95%]", "", "R@5", "R@10", "RR@10", "P@5")


class Block(NamedTuple):
    """A command, and what a page shows of its output."""

    report: str
    command: str
    rows: tuple[str, ...]
    """The rows that the page shows; those between them are left out."""
    whole: bool = True
    """Whether the second line of the verdict is shown to its end."""


BLOCKS = {
    "readme": Block("demo/known-item", "surefind bench --as '*'", ("BM25", "hybrid", "pair", "Vector")),
    "reading": Block(
        "demo/questions",
        "surefind bench --exam questions --as '*'",
        ("pair", "Convex α=0.5", "RRF k=10", "hybrid", "Convex α=0.3", "BM25"),
    ),
    "first": Block("tutorial/known-item", "surefind bench", ("BM25", "pair", "hybrid", "Vector"), whole=False),
    "second": Block(
        "tutorial/questions",
        "surefind bench --exam questions -p words -p meaning -p hybrid -p pair",
        ("words", "meaning", "hybrid", "pair"),
        whole=False,
    ),
}


def run() -> dict[str, Any]:
    """Runs everything that the pages show, and returns its figures by report."""
    with tempfile.TemporaryDirectory() as place:
        demo, tutorial = Path(place) / "demo", Path(place) / "tutorial"
        _surefind("demo", demo, "--json")
        reports = {f"demo/{name}": demo / ".surefind" / REPORTS / name for name in ("known-item", "questions")}
        tutorial.mkdir()
        _surefind("init", "--kb", tutorial)
        for encoder in ENCODERS:
            _keep(tutorial, encoder)
        _surefind("sync", sample_folder(), "--kb", tutorial)
        _surefind("exam", "import", sample_questions(), "--kb", tutorial)
        for name, block in BLOCKS.items():
            if block.report not in reports:
                reports[block.report] = Path(place) / name
                words = block.command.split()[1:]
                _surefind(*words, "--kb", tutorial, "--out", reports[block.report])
        return {name: summary(read_report(folder / "report.json")) for name, folder in reports.items()}


def _keep(folder: Path, encoder: str) -> None:
    with KnowledgeBase.open(folder) as kb:
        kb.services.keep_vectors(sample_vectors(encoder))


def _surefind(*words: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "surefind", *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def summary(report: BenchReport) -> dict[str, Any]:
    """What the file keeps of a report: all but times, which differ from run to run."""
    return {
        "head": f"{report.exam.label}: {report.exam.queries} questions over {report.corpus.documents} documents, "
        f"{report.corpus.chunks} passages.",
        "rows": {
            row.name: {
                "label": label(row.name, row.aliases),
                "mark": mark(report, row),
                "cells": figures(report, row)[: len(_HEADS)],
            }
            for row in report.ordered
        },
        "winner": report.winner,
        "recommended": report.recommended,
        "verdict": report.verdict.split("\n"),
    }


def shown(block: Block, report: dict[str, Any]) -> str:
    """The block of a page: the command, some rows of its table, and the verdict."""
    rows = report["rows"]
    listed = [f"{rows[name]['mark']} {rows[name]['label']}" for name in rows if name in block.rows]
    cells = [list(_HEADS), *(rows[name]["cells"] for name in rows if name in block.rows)]
    wide = max(len(name) for name in ("configuration", *listed))
    widths = [max(len(row[i]) for row in cells) for i in range(len(_HEADS))]
    lines = [
        f"{name:<{wide}}  " + "  ".join(f"{cell:<{width}}" if i == 1 else f"{cell:>{width}}" for i, (cell, width) in
                                        enumerate(zip(row, widths, strict=True))) + "  …"
        for name, row in zip(["configuration", *listed], cells, strict=True)
    ]  # fmt: skip
    made, after = [f"$ {block.command}", report["head"], lines[0]], -1
    for line, name in zip(lines[1:], (name for name in rows if name in block.rows), strict=True):
        place = list(rows).index(name)
        made += ["…"] if after >= 0 and place > after + 1 else []
        made.append(line)
        after = place
    use, sure = report["verdict"]
    sure = "\n".join(textwrap.wrap(sure, _WIDTH)) if block.whole else f"{re.split('(?<=[;.]) ', sure)[0]} …"
    return "\n".join(["", "```console", *made, "…", use, sure, "…", "```", ""])


def value(name: str, reports: dict[str, Any]) -> str:
    """A figure within a sentence: `demo/questions BM25` is a row's nDCG@10, `demo/questions winner` a name."""
    report, _, row = name.partition(" ")
    if row in ("winner", "recommended"):
        return str(reports[report][row])
    return str(reports[report]["rows"][row]["cells"][0].partition(" ")[0])


def rendered(text: str, reports: dict[str, Any]) -> str:
    """A page with its marked parts as the figures say."""

    def part(match: re.Match[str]) -> str:
        start, name, _, end = match.groups()
        block = BLOCKS.get(name)
        return start + (shown(block, reports[block.report]) if block else value(name, reports)) + end

    return _PART.sub(part, text)


def outdated(reports: dict[str, Any]) -> list[str]:
    """The pages that say something else than the figures."""
    texts = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
    return [page for page, text in texts.items() if rendered(text, reports) != text]


def main() -> None:
    if "--check" not in sys.argv:
        FIGURES.write_text(json.dumps(run(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    reports = json.loads(FIGURES.read_text(encoding="utf-8"))
    pages = outdated(reports)
    if "--check" not in sys.argv:
        for page in pages:
            text = (ROOT / page).read_text(encoding="utf-8")
            (ROOT / page).write_text(rendered(text, reports), encoding="utf-8")
    elif pages:
        sys.exit(f"Not as in {FIGURES.relative_to(ROOT)}: {', '.join(pages)}. Run: python scripts/sample_figures.py")


if __name__ == "__main__":
    main()
