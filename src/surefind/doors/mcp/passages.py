"""Shows a passage in an answer: its title, where it is, and its text, cut to a number of tokens.

The sentence that fits the question best stands between ⟦ and ⟧.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from surefind.base.prompts.fence import harmless
from surefind.base.types import Hit
from surefind.doors.mcp.answers import one_line, quoted, size
from surefind.engine.search.extent import Extent

OPEN, CLOSE = "⟦", "⟧"
_MIN_PASSAGE_CHARS = 60
"""A text is not cut any shorter."""
_FIT_WITHIN_CHARS = 80
"""The search for the longest text that fits ends within this many characters."""
_MAX_TOKEN_CHARS = 10
"""More characters than this, on average, no token of a text has; it bounds the search."""


@dataclass(frozen=True, slots=True)
class PassageForms:
    """A passage in both forms."""

    text: str
    data: dict[str, Any]

    @property
    def tokens(self) -> int:
        return size(self.text, self.data)


def show(hit: Hit, budget: int, note: str = "") -> PassageForms:
    """Shows a hit with as much of its text as fits into `budget` tokens; with very little text if its head alone is
    longer."""
    shown = _shown(hit, hit, note)
    if shown.tokens <= budget:
        return shown
    least, most = _MIN_PASSAGE_CHARS, min(len(hit.text), budget * _MAX_TOKEN_CHARS)
    while most - least > _FIT_WITHIN_CHARS:
        middle = (least + most) // 2
        fits = _shown(hit, Extent(None, middle).cut(hit), note).tokens <= budget
        least, most = (middle, most) if fits else (least, middle)
    return _shown(hit, Extent(None, least).cut(hit), note)


def _shown(whole: Hit, hit: Hit, note: str) -> PassageForms:
    body = _marked(hit)
    before, after = hit.start > whole.start, hit.end < whole.end
    body = f"{'… ' if before else ''}{body}{' …' if after else ''}"
    headings = [whole.title or whole.document, *(heading for heading in whole.headings if heading != whole.title)]
    title = one_line(" › ".join(headings))
    parts = [f"id {hit.id}", one_line(hit.citation), *([note] if note else [])]
    return PassageForms(f"{title}\n{' · '.join(parts)}\n{quoted(body)}", _data(hit, title, body, note))


def _data(hit: Hit, title: str, body: str, note: str) -> dict[str, Any]:
    lines = "-".join(map(str, hit.lines)) if hit.lines else ""
    location = "" if lines else hit.location
    parts = {"id": hit.id, "title": title, "document": hit.document, "lines": lines, "location": location, "note": note}
    return {name: value for name, value in parts.items() if value} | {"text": body}


def _marked(hit: Hit) -> str:
    """Returns the text with its best sentence marked, if it has one."""
    first, last = (min(max(at - hit.start, 0), len(hit.text)) for at in hit.sentence or (0, 0))
    if first == last:
        return harmless(hit.text)
    before, sentence, after = (harmless(hit.text[a:b]) for a, b in ((0, first), (first, last), (last, None)))
    return f"{before}{OPEN}{sentence}{CLOSE}{after}"
