"""Prints hits. The output is readable without colour; terminals with colour emphasise the words of the query."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from surefind.base.running import FELL_BACK
from surefind.base.text.markup import without_markup
from surefind.base.types import Hit, SearchResult, TraceEntry
from surefind.doors.cli._common import console
from surefind.doors.words import pieces, sought
from surefind.engine.search.pipeline import waiting_text
from surefind.kb.answer.values import NOT_HERE, NOT_SURE, WRITES, Answer

_SNIPPET = 320
"""Characters in a snippet."""
_LEAD = 40
"""Characters shown before the first query word of a snippet."""
_MEANS = {
    "likely here": "the first hit probably answers this.",
    "perhaps here": "check a hit before you rely on it.",
    "probably not here": "use a hit only if it states the answer.",
}
_WORD = 60
"""Characters searched for a space at which to cut a snippet; without one, the cut goes through a word."""


def show(
    result: SearchResult,
    explain: bool,
    full: bool,
    groups: Sequence[str],
    later: Callable[[], SearchResult] | None = None,
) -> None:
    """`later` returns the same result with the confidence of a search that has read its first hits."""
    screen = console()
    if not result.hits:
        screen.print(_nothing(result))
    words = sought(result.query)
    for hit in result.hits:
        head = Text.assemble((f"{hit.rank:>2}. ", "bold"), (hit.title or hit.document, "bold"), f"  {hit.score:.3f}")
        screen.print(head)
        trail = " > ".join(heading for heading in hit.headings if heading != hit.title)
        screen.print(Padding(Text(f"{place(hit)}  {trail}".rstrip(), style="dim"), (0, 0, 0, 4), expand=False))
        if explain:
            screen.print(Padding(Text(_places(hit)), (0, 0, 0, 4), expand=False))
        text = hit.text if full else snippet(_matched(hit), words)
        screen.print(Padding(emphasise(text, words), (0, 0, 1, 4), expand=False))
    if result.waiting_for:
        screen.print(waiting_text(result.waiting_for), markup=False)
    if later and result.hits:
        sys.stdout.flush()
        result = later()
    if result.hits and result.confidence is not None:
        screen.print(_sure(result, explain))
    elif result.hits and result.confidence_from:
        screen.print(f"How sure this is cannot be said: {result.confidence_from}.")
    if explain:
        _show_trace(result)
    for entry in result.trace if not explain else ():
        _, mark, why = entry.note.partition(FELL_BACK)
        if mark:
            screen.print(f"{entry.spec.partition('(')[0]} {mark}{why}", markup=False)
    if result.withheld:
        who = "with --as " + ", ".join(groups) if groups else "without --as GROUP"
        screen.print(f"{result.withheld} documents were left out before ranking (filters, or restricted {who}).")


def show_answer(answer: Answer) -> None:
    """Prints an answer and its sources, or the closest passages, or that there are none."""
    screen = console()
    if answer.state == "not_here":
        near = f" Closest: {answer.closest.title or answer.closest.document}" if answer.closest else ""
        screen.print(f"{NOT_HERE}{near}", markup=False, soft_wrap=True)
        return
    if answer.state == "not_sure":
        screen.print(NOT_SURE)
    for sentence in answer.sentences:
        if not sentence.quoted:
            continue
        text = Text(sentence.cited_text)
        if sentence.mark and sentence.mark != (0, len(sentence.text)):
            text.stylize("bold", *sentence.mark)
        screen.print(text, soft_wrap=True, end="\n\n")
    if answer.written:
        said = " ".join(sentence.cited_text for sentence in answer.written)
        screen.print(f"{WRITES} {said}\n", soft_wrap=True, markup=False)
    for number, hit in enumerate(answer.cited, 1):
        screen.print(Text(f"[{number}] {hit.title}  {place(hit)}", style="dim"), soft_wrap=True)
    how = f"quoted, and written by {answer.model}" if answer.model else "quoted, no language model was used"
    screen.print(f"{answer.sure.capitalize()}; {how}." if answer.sure else f"{how.capitalize()}.", markup=False)


def place(hit: Hit) -> str:
    """Where to open a hit: its document with lines, page, sheet or slide, and its id."""
    return f"{hit.citation}  [{hit.id}]"


def _nothing(result: SearchResult) -> str:
    """The answer of a search without hits."""
    if result.closest is None or result.confidence is None:
        return f"Nothing found for {result.query!r}."
    closest = result.closest.title or result.closest.document
    return f"Nothing here answers this ({_in_words(result)}).{_unknown(result)} Closest: {closest}"


def _sure(result: SearchResult, explain: bool) -> str:
    calibrated = f" Confidence {result.confidence:.2f}, calibrated on {result.confidence_from}." if explain else ""
    if result.confidence_own:
        return f"Confidence {result.confidence:.2f} that the first hit answers this.{_unknown(result)}{calibrated}"
    return f"{result.sure.capitalize()}: {_MEANS[result.sure]}{_unknown(result)}{calibrated}"


def _in_words(result: SearchResult) -> str:
    """How sure a search is: a number if it was calibrated on questions about these documents, else words."""
    return f"confidence {result.confidence:.2f}" if result.confidence_own else result.sure


def _unknown(result: SearchResult) -> str:
    return " No word of the query occurs in these documents." if result.known_words == 0 else ""


def _matched(hit: Hit) -> str:
    start, end = hit.matched or (hit.start, hit.end)
    return hit.text[start - hit.start : end - hit.start]


def snippet(text: str, words: frozenset[str], size: int = _SNIPPET) -> str:
    """Returns the part of the text that contains most of the query's words, on one line."""
    flat = " ".join(without_markup(text).split())
    if len(flat) <= size:
        return flat
    best = _densest(sorted((start, key) for start, _, key in pieces(flat, True) if key in words), size)
    start = flat.rfind(" ", max(0, best - _LEAD - _WORD), best - _LEAD) + 1 or best - _LEAD if best > _LEAD else 0
    end = start + size
    cut = flat.rfind(" ", end - _WORD, end) if end < len(flat) else end
    return ("… " if start else "") + flat[start : cut if cut > 0 else end] + (" …" if end < len(flat) else "")


def _densest(spans: list[tuple[int, str]], size: int) -> int:
    """Returns the first place, 0 or that of a word, from which `size` characters contain the most different words."""
    inside: Counter[str] = Counter()
    best, most = 0, 0
    entering = leaving = 0
    for at in (0, *(start for start, _ in spans)):
        while entering < len(spans) and spans[entering][0] < at + size:
            inside[spans[entering][1]] += 1
            entering += 1
        while leaving < len(spans) and spans[leaving][0] < at:
            key = spans[leaving][1]
            inside[key] -= 1
            if not inside[key]:
                del inside[key]
            leaving += 1
        if len(inside) > most:
            best, most = at, len(inside)
    return best


def emphasise(text: str, words: frozenset[str]) -> Text:
    """Returns the text with the query's words in bold."""
    shown = Text(text)
    for start, end, key in pieces(text, True):
        if key in words:
            shown.stylize("bold", start, end)
    return shown


def _places(hit: Hit) -> str:
    return "   ".join(f"{name} #{place.rank} ({place.score:.3f})" for name, place in hit.stages.items())


def _note(entry: TraceEntry) -> str:
    spent = f"{entry.calls} call{'s' * (entry.calls > 1)}, ${entry.dollars:.4f}" if entry.calls else ""
    return "; ".join(part for part in (entry.note, spent) if part)


def _show_trace(result: SearchResult) -> None:
    table = Table("stage", "spec", "candidates", "ms", "note", box=None, pad_edge=False, header_style="bold")
    for entry in result.trace:
        table.add_row(entry.stage, entry.spec, str(entry.candidates), f"{entry.ms:.1f}", _note(entry))
    console().print(table)
