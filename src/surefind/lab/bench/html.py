"""Renders the report as one HTML page: a script in `report.html` draws it from the JSON that `render` inserts.

The page contains text of arbitrary documents and is opened from disk or sent by e-mail. So no document may be able to
close the script element that contains it, and the page must not load anything from elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files

from surefind.base.disk.records import to_json
from surefind.lab.bench.report import BenchReport

_SLOT = '<script type="application/json" id="report">null</script>'
_STYLE = "/* page.css */"
_NOT_DRAWN = ("query_ids", "query_texts", "query_documents", "query_clusters")
"""What the page has no use for."""


def template(package: str, name: str) -> str:
    """A page of a package, with the style that all pages share."""
    page = files(package).joinpath(name).read_text(encoding="utf-8")
    return page.replace(_STYLE, files("surefind.lab.bench").joinpath("page.css").read_text(encoding="utf-8"))


def render(report: BenchReport) -> str:
    """The whole page. Raises ValueError for NaN or infinity, which browsers cannot parse as JSON: use None instead."""
    page = template("surefind.lab.bench", "report.html")
    before, slot, after = page.partition(_SLOT)
    data = {key: value for key, value in to_json(report).items() if key not in _NOT_DRAWN}
    return before + slot.replace("null", _embeddable(data)) + after


def _embeddable(data: Mapping[str, object]) -> str:
    # Plain ASCII leaves no U+2028, U+2029 or lone surrogate; without "<" there is no "</script" and no "<!--".
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")
