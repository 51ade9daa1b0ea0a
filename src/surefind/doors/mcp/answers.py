"""The answer of a tool: a text for a model to read, and the same as JSON. Both stay below the caller's token limit.

Some clients give the model only the text and others only the JSON, so each of them is complete by itself. Text of
documents is quoted: every line of it begins with `> `, so no document can pass its own words off as ours.

The arguments of a tool: checked, described for the client, and explained in one sentence if they are wrong.

Cuts a document into pages of about 1,500 tokens that end with a paragraph.

The pages depend on the text alone, so page 3 stays page 3 whatever size of answer is asked for.

Shows a passage in an answer: its title, where it is, and its text, cut to a number of tokens.

The sentence that fits the question best stands between ⟦ and ⟧.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from surefind.base.errors import UsageError
from surefind.base.prompts.fence import harmless
from surefind.base.text.words import count_tokens, token_spans
from surefind.base.types import Hit
from surefind.engine.search.hits import Extent

DEFAULT_TOKENS, MIN_TOKENS, MAX_TOKENS = 2_000, 300, 20_000
"""The size of an answer: without `max_tokens`, and the limits of `max_tokens`."""
_MAX_NAME_CHARS = 160
"""Characters of a title or a name in an answer."""
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class ToolReply:
    text: str
    data: dict[str, Any] = field(default_factory=dict)


def size(text: str, data: Any) -> int:
    """Returns the tokens of the longer of the two forms."""
    return max(count_tokens(text), count_tokens(json.dumps(data, ensure_ascii=False)))


def quoted(text: str) -> str:
    """Marks every line as a quotation."""
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def one_line(text: str) -> str:
    """Returns a title or a name of a document on one line, cut if it is very long."""
    flat = _SPACE.sub(" ", harmless(text)).strip()
    return flat if len(flat) <= _MAX_NAME_CHARS else f"{flat[:_MAX_NAME_CHARS]}…"


def clipped(text: str, most: int) -> str:
    """Cuts a text after `most` tokens."""
    spans = token_spans(text)
    return text if len(spans) <= most else f"{text[: spans[most - 1][1]]} …"


def rounded(confidence: float | None) -> float | None:
    """Returns a confidence with the digits that mean something."""
    return None if confidence is None else round(confidence, 3)


MaxTokens = Annotated[
    int, Field(DEFAULT_TOKENS, ge=MIN_TOKENS, le=MAX_TOKENS, description="The longest answer, in tokens.")
]


class Arguments(BaseModel):
    """The base of the arguments of every tool."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def read(cls, given: dict[str, Any]) -> Self:
        """Checks arguments. An argument that is null counts as missing, because some clients send all of them."""
        try:
            return cls.model_validate({name: value for name, value in given.items() if value is not None})
        except ValidationError as error:
            raise UsageError(cls._explained(error)) from None

    @classmethod
    def _explained(cls, error: ValidationError) -> str:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "the arguments"
        known = f"The arguments are: {', '.join(cls.model_fields)}."
        if first["type"] == "extra_forbidden":
            return f"There is no argument {name[:80]!r}. {known}"
        if first["type"] == "missing":
            return f"The argument {name} is missing. {known}"
        return f"The argument {name} is wrong: {first['msg'][:200]}."

    @classmethod
    def schema_for_clients(cls) -> dict[str, Any]:
        """Returns the JSON schema without the titles that pydantic adds: they repeat the names."""
        schema = cls.model_json_schema()
        fields = {
            name: {key: value for key, value in field.items() if key != "title"}
            for name, field in schema["properties"].items()
        }
        found = {"type": "object", "properties": fields, "additionalProperties": False}
        return found | ({"required": schema["required"]} if "required" in schema else {})


PAGE = 1_500
"""The most tokens of a page."""
_ENDS = (re.compile(r"\n[ \t]*\n+"), re.compile(r"\n"), re.compile(r"(?<=[.!?])\s+"))
"""Where a page may end: after a paragraph; if there is none in its second half, after a line, or after a sentence."""


def pages(text: str, most: int = PAGE) -> list[tuple[int, int]]:
    """Returns the (start, end) of each page. The pages together are the whole text; there is at least one."""
    tokens = token_spans(text)
    spans, start, at = [], 0, 0
    while len(tokens) - at > most:
        limit = tokens[at + most][0]
        start, before = _end(text, tokens[at + most // 2][0], limit), start
        spans.append((before, start))
        while tokens[at][0] < start:
            at += 1
    return [*spans, (start, len(text))]


def page_of(spans: list[tuple[int, int]], at: int) -> int:
    """Returns the number of the page that has a character, from 1 on."""
    return next((number for number, (_, end) in enumerate(spans, 1) if at < end), len(spans))


def _end(text: str, least: int, limit: int) -> int:
    for pattern in _ENDS:
        ends = [match.end() for match in pattern.finditer(text, least, limit)]
        if ends:
            return ends[-1]
    return limit


def fitted(head: str, data: dict[str, Any], page: str, max_tokens: int) -> tuple[str, str]:
    """Returns the answer's text and the page's text, which is cut if the whole page is longer than was asked for."""
    note, cut = "", page
    while (tokens := size(text := f"{head}\n{quoted(cut)}{note}", {**data, "text": cut + note})) > max_tokens and cut:
        note = "\n(The page goes on. Raise max_tokens to read all of it.)"
        share = 1 - (tokens - max_tokens) / tokens
        cut = page[: int(len(cut) * min(share, 0.97))]
    return text, cut + note


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
