"""The report page: the data comes out as it went in, none of it can become markup, nothing is loaded from elsewhere."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from cases import each
from report_helpers import bench_report, row
from surefind.base.disk.sealed import from_json
from surefind.lab.bench.html import render
from surefind.lab.bench.report import BenchReport, QuotedChunk, SampledQuestion
from surefind.lab.measure.statistics import Interval

HOSTILE = [
    "</script><script>alert(1)</script>",
    "</SCRIPT >",
    "<!-- <script>",
    "<img src=x onerror=alert(1)>",
    "]]> & &lt; \\u003c \\ \" '",
    "\u2028 and \u2029 and \x00 and \ud800",
    '<script type="application/json" id="report">null</script>',
    "Überweisung – 支払い 🧾",
]


class _Elements(HTMLParser):
    """What a browser's parser would see: the start tags, and the text of every script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script":
            self.scripts[-1] += data


def report(text: str = "CTR filing deadline", **more: Any) -> BenchReport:
    question = SampledQuestion(id="q1", text=text, family="f", overlap=None, gold=(), results=((1.0, 1, (0,), (1,)),))
    chunk = QuotedChunk(text, text, (text,), text)
    made = row(text, aliases=(text,), **more)
    return bench_report(replace(made, spec=text), verdict=text, details=(text,), queries=(question,), chunks=(chunk,))


@each("text", HOSTILE)
def test_the_report_round_trips(text: str) -> None:
    scripts = _Elements(render(report(text))).scripts
    drawn = json.loads(scripts[0])
    not_drawn = {"query_ids": [], "query_texts": [], "query_documents": [], "query_clusters": []}
    assert from_json(BenchReport, drawn | not_drawn) == report(text)


@each("text", HOSTILE)
def test_no_text_becomes_markup(text: str) -> None:
    plain, hostile = _Elements(render(report())), _Elements(render(report(text)))
    assert hostile.tags == plain.tags
    assert hostile.scripts[1:] == plain.scripts[1:]


@each("text", HOSTILE)
def test_the_data_needs_no_care_from_the_reader(text: str) -> None:
    data = _Elements(render(report(text))).scripts[0]
    assert data.isascii()
    assert "<" not in data


def test_what_a_browser_cannot_parse_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        render(report(measures={"nDCG@10": Interval(float("nan"), 0.0, 1.0)}))


def test_rendering_leaves_the_report_alone() -> None:
    before, after = report("<b>"), report("<b>")
    render(after)
    assert after == before


def test_nothing_is_loaded_from_elsewhere() -> None:
    page = render(report())
    assert set(re.findall(r"""https?://[^\s"'`)]*""", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"""@import|url\(|\bfetch\(|XMLHttpRequest|WebSocket|EventSource|sendBeacon|import\(""", page)
    for tag, attributes in _Elements(page).tags:
        assert "src" not in attributes, f"<{tag}> loads something"
        assert tag != "link" or attributes["href"] == "data:,"
    assert "default-src 'none'" in page


def test_text_is_never_inserted_as_markup() -> None:
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", render(report())
    )


def test_the_page_is_small() -> None:
    assert len(render(report()).encode()) < 72_000


def test_what_is_not_there_is_not_written_as_false() -> None:
    """`replaceChildren(a && b)` writes the word "false" for an `a` that does not hold."""
    page = render(report())
    for start in [match.end() for match in re.finditer(r"replaceChildren\(", page)]:
        depth, outside = 1, ""
        for char in page[start:]:
            depth += (char in "([{") - (char in ")]}")
            if depth == 0:
                break
            outside += char if depth == 1 else ""
        assert "&&" not in outside, outside
