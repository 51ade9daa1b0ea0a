"""Renders a study as one HTML page without scripts. Everything that comes from documents or models is escaped, and the
page may load nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from typing import Any

from surefind.lab.bench.html import template
from surefind.lab.study.chart import draw, draw_clouds, draw_swarm
from surefind.lab.study.values import Head

_SLOT = "<!-- study -->"
_TITLE = "<!-- title -->"


def render(report: dict[str, Any]) -> str:
    page = template("surefind.lab.study", "study.html")
    body = "".join([_header(report), _contents(report), '<main class="page" id="main">', *_sections(report), "</main>"])
    return page.replace(_TITLE, escape(report["title"])).replace(_SLOT, body + _footer(report))


def _header(report: dict[str, Any]) -> str:
    facts = "".join(
        f"<div><dt>{escape(column['name'])}: {escape(column['exam'])}, for {escape(column['audience'])}</dt>"
        f"<dd>{column['questions']:,} questions</dd></div>"
        for column in report["collections"]
    )
    return (
        f'<div class="page"><header><p class="kicker">A study repeated with Surefind {escape(report["surefind"])}, '
        f"{escape(report['created'][:10])}</p><h1>{escape(report['title'])}</h1>"
        f'<p class="rest">{escape(report["source"])}</p><dl class="facts">{facts}</dl></header></div>'
    )


def _contents(report: dict[str, Any]) -> str:
    links = "".join(
        f'<li><a href="#t{i}">{escape(table["number"] or table["title"])}</a></li>'
        for i, table in enumerate(report["tables"])
    )
    return f'<nav aria-label="Tables"><div class="page"><ul>{links}</ul></div></nav>'


def _sections(report: dict[str, Any]) -> Iterable[str]:
    for i, table in enumerate(report["tables"]):
        heads = [Head(**head) for head in table["heads"]]
        title = ": ".join(filter(None, [table["number"], table["title"]]))
        yield f'<section id="t{i}"><h2>{escape(title)}</h2><div class="body">'
        if table["chart"] == "clouds":
            yield draw_clouds(title, table["clouds"])
        elif table["chart"] == "swarm":
            yield draw_swarm(title, table["clouds"])
        elif table["chart"]:
            yield draw(table["chart"], title, heads, table["rows"], table["drawn"])
        yield _table(title, heads, table["rows"])
        yield "".join(map(_finding, table["findings"]))
        yield "".join(f'<p class="note">{escape(note)}</p>' for note in table["notes"])
        yield f'<pre class="cmd" tabindex="0"><code>$ {escape(table["command"])}</code></pre></div></section>'


def _table(title: str, heads: Sequence[Head], rows: Sequence[dict[str, Any]]) -> str:
    groups = "".join(
        f'<th class="n group" colspan="{len(list(same))}" scope="colgroup">{escape(whose)}</th>'
        for whose, same in groupby(heads, lambda head: head.whose)
    )
    names = "".join(f'<th class="n{_paper(head)}" scope="col">{escape(head.text)}</th>' for head in heads)
    lines = "".join(_row(heads, row) for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(title)}"><table><thead>'
        f"<tr><th></th>{groups}</tr><tr><th></th>{names}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _paper(head: Head) -> str:
    return " paper" if head.paper else ""


def _row(heads: Sequence[Head], row: dict[str, Any]) -> str:
    spec = f'<span class="spec">{escape(row["spec"])}</span>' if row["spec"] else ""
    left_out = f'<span class="left">{escape(row["left_out"])}</span>' if row["left_out"] else ""
    cells = "".join(
        f'<td class="n{_paper(head)}">{escape(head.write(cell))}</td>'
        for head, cell in zip(heads, row["cells"], strict=True)
    )
    return f'<tr><th class="conf" scope="row"><b>{escape(row["name"])}</b>{spec}{left_out}</th>{cells}</tr>'


def _finding(finding: dict[str, Any]) -> str:
    verdicts = "".join(
        f'<li><span class="tag {_CLASSES[said["outcome"]]}">'
        f"{escape(said['collection'])} {escape(said['outcome'])}</span> "
        f"{escape(said['text'])}</li>"
        for said in finding["verdicts"]
    )
    whose = "The paper" if finding["paper"] else "Surefind"
    return f'<div class="finding"><p><b>{whose}:</b> {escape(finding["claim"])}</p><ul>{verdicts}</ul></div>'


_CLASSES = {"agrees": "good", "disagrees": "bad", "undecided": "", "left out": ""}


def _footer(report: dict[str, Any]) -> str:
    where = report["environment"]
    about = f"Python {where['python']}, {where['platform']}, {where['cores']} cores"
    return (
        f'<footer class="page"><p class="small soft">{escape(about)}. Columns headed “paper” show figures that the '
        "paper printed, for its own documents and questions.</p>"
        f'<pre class="cmd" tabindex="0"><code>$ {escape(report["command"])}</code></pre></footer>'
    )
