"""Writes the report of a study as files: a web page, and sealed JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from surefind.base.disk.folders import private_folder
from surefind.base.disk.sealed import write_sealed
from surefind.lab.bench.readable import without_folder
from surefind.lab.study.html import render


def write_files(report: dict[str, Any], folder: Path) -> Path:
    """Writes `study.json` and `study.html`. Returns the path of the page."""
    private_folder(folder)
    write_sealed(folder / "study.json", report)
    page = folder / "study.html"
    page.write_text(render(report), encoding="utf-8")
    return page


def folder_of(data: Path, report: dict[str, Any]) -> Path:
    """The folder of a report in the data of a knowledge base."""
    return data / "studies" / f"{report['study']}-{report['created'][:19].replace(':', '')}"


def readable_study(report: dict[str, Any]) -> dict[str, Any]:
    """Returns a report without what its readers may not know: the results of each question, and where the server keeps
    its files."""
    kept = {key: value for key, value in report.items() if key not in ("page", "results")}
    return {**kept, "command": without_folder(report["command"])} if "command" in report else kept
