"""Writes the report of a study as files: a web page, and sealed JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from surefind.disk.folders import private_folder
from surefind.disk.sealed import sealed
from surefind.study.html import render


def write_files(report: dict[str, Any], folder: Path) -> Path:
    """Writes `study.json` and `study.html`. Returns the path of the page."""
    private_folder(folder)
    (folder / "study.json").write_text(json.dumps(sealed(report), ensure_ascii=False, indent=1), encoding="utf-8")
    page = folder / "study.html"
    page.write_text(render(report), encoding="utf-8")
    return page


def folder_of(data: Path, report: dict[str, Any]) -> Path:
    """The folder of a report in the data of a knowledge base."""
    return data / "studies" / f"{report['study']}-{report['created'][:19].replace(':', '')}"
