"""Showing hits: readable without colour, the words of the query emphasised where there is colour."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from surefind.notes import FELL_BACK
from surefind.serve.cli._common import console
from surefind.types import Hit, SearchResult, TraceEntry

_SNIPPET = 320
_WORD = re.compile(r"\w+")


def show(result: SearchResult, explain: bool, full: bool, groups: Sequence[str]) -> None:
    screen = console()
    if not result.hits:
        screen.print(f"Nothing found for {result.query!r}.")
    words = {word.lower() for word in _WORD.findall(result.query) if len(word) > 2}
    for hit in result.hits:
        head = Text.assemble((f"{hit.rank:>2}. ", "bold"), (hit.title or hit.document, "bold"), f"  {hit.score:.3f}")
        screen.print(head)
        place = f"{hit.document}:{hit.start}-{hit.end}" + (f"  {hit.location}" if hit.location else "")
        trail = " > ".join(heading for heading in hit.headings if heading != hit.title)
        screen.print(Padding(Text(f"{place}  {trail}".rstrip(), style="dim"), (0, 0, 0, 4), expand=False))
        if explain:
            screen.print(Padding(Text(_places(hit)), (0, 0, 0, 4), expand=False))
        text = hit.text if full else snippet(_matched(hit), words)
        screen.print(Padding(_emphasise(text, words), (0, 0, 1, 4), expand=False))
    if explain:
        _show_trace(result)
    for entry in result.trace if not explain else ():
        _, mark, why = entry.note.partition(FELL_BACK)
        if mark:
            screen.print(f"{entry.spec.partition('(')[0]} {mark}{why}", markup=False)
    if result.withheld:
        who = "with --as " + ", ".join(groups) if groups else "without --as GROUP"
        screen.print(f"{result.withheld} documents were left out before ranking (filters, or restricted {who}).")


def _matched(hit: Hit) -> str:
    start, end = hit.matched or (hit.start, hit.end)
    return hit.text[start - hit.start : end - hit.start]


def snippet(text: str, words: set[str]) -> str:
    """The stretch that holds most of the query's words, on one line."""
    flat = " ".join(text.split())
    if len(flat) <= _SNIPPET:
        return flat
    starts = [0, *(m.start() for m in _WORD.finditer(flat) if m.group().lower() in words)]
    best = max(starts, key=lambda at: (_found(flat[at : at + _SNIPPET], words), -at))
    start = flat.rfind(" ", 0, max(0, best - 40)) + 1 if best > 40 else 0
    cut = flat[start : start + _SNIPPET].rsplit(" ", 1)[0]
    return ("… " if start else "") + cut + " …"


def _found(text: str, words: set[str]) -> int:
    return len({word.lower() for word in _WORD.findall(text)} & words)


def _emphasise(text: str, words: set[str]) -> Text:
    shown = Text(text)
    for match in _WORD.finditer(text):
        if match.group().lower() in words:
            shown.stylize("bold", match.start(), match.end())
    return shown


def _places(hit: Hit) -> str:
    return "   ".join(f"{name} #{place.rank} ({place.score:.3f})" for name, place in hit.stages.items())


def _said(entry: TraceEntry) -> str:
    spent = f"{entry.calls} call{'s' * (entry.calls > 1)}, ${entry.dollars:.4f}" if entry.calls else ""
    return "; ".join(part for part in (entry.note, spent) if part)


def _show_trace(result: SearchResult) -> None:
    table = Table("stage", "spec", "candidates", "ms", "note", box=None, pad_edge=False, header_style="bold")
    for entry in result.trace:
        table.add_row(entry.stage, entry.spec, str(entry.candidates), f"{entry.ms:.1f}", _said(entry))
    console().print(table)
