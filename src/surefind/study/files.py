"""Writes the report of a study as files: a web page, and sealed JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from surefind.disk.folders import private_folder
from surefind.disk.sealed import write_sealed
from surefind.study.html import render


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
