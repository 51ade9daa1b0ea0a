"""The report as one page: `report.html` draws itself from the JSON that `render` puts into it.

The page holds the text of arbitrary documents and is opened from a disk or attached to a mail, so it must not be
possible for a document to end the script element it travels in, and nothing may be loaded from elsewhere.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

_SLOT = '<script type="application/json" id="report">null</script>'


def render(report: dict[str, Any]) -> str:
    """The whole page. A NaN or an infinity is an error here, for the browser could not read it: write None instead."""
    page = files("surefind.bench").joinpath("report.html").read_text(encoding="utf-8")
    before, slot, after = page.partition(_SLOT)
    return before + slot.replace("null", _embeddable(report)) + after


def _embeddable(report: dict[str, Any]) -> str:
    # Plain ASCII leaves no U+2028, U+2029 or lone surrogate; without "<" there is no "</script" and no "<!--".
    text = json.dumps(report, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")
