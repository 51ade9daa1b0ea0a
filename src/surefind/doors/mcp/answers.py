"""The answer of a tool: a text for a model to read, and the same as JSON. Both stay below the caller's token limit.

Some clients give the model only the text and others only the JSON, so each of them is complete by itself. Text of
documents is quoted: every line of it begins with `> `, so no document can pass its own words off as ours.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from surefind.base.prompts.fence import harmless
from surefind.base.text.tokens import count_tokens, token_spans

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
