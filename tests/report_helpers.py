"""Saved reports for tests: the parts of a report from which a configuration is taken."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from surefind import Pipeline
from surefind.disk.sealed import sealed


def row(name: str, spec: str, layout: str = "", aliases: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """A row of a report, as far as its name and its configuration go."""
    full = str(Pipeline.parse(spec))
    return {"name": name, "aliases": list(aliases), "pipeline": name, "spec": full, "layout": layout, **more}


def save_report(kb: Path, folder: str, *rows: dict[str, Any], age: float = 0, recommended: str = "") -> Path:
    """Writes a report into the knowledge base, `age` seconds ago, and returns its folder. It compares layouts if a row
    has one."""
    path = kb / ".surefind" / "reports" / folder / "report.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    compares = any(one["layout"] for one in rows)
    best = recommended or rows[0]["name"]
    data = sealed({"rows": rows, "compares_layouts": compares, "recommended": best})
    path.write_text(json.dumps(data), encoding="utf-8")
    then = path.stat().st_mtime - age
    os.utime(path, (then, then))
    return path.parent
