"""Reads JSON from a model's answer, wherever it is in the text.

Endpoints that can enforce a schema answer with JSON alone. Others wrap it in prose or in a code block, and some write
their reasoning before it.
"""

from __future__ import annotations

import json
import re
from typing import Any

_THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_TRAILING_COMMA = re.compile(r",(?=\s*[\]}])")
_LONGEST = 100_000


def read_object(text: str) -> dict[str, Any] | None:
    """Returns the last JSON object of an answer that is not inside another one, or None."""
    plain = without_reasoning(text)[:_LONGEST]
    return _last_object(plain) or _last_object(_TRAILING_COMMA.sub("", plain))


def without_reasoning(text: str) -> str:
    """Removes the reasoning that some models write before the answer."""
    return _THOUGHTS.sub("", text).strip()


def _last_object(text: str) -> dict[str, Any] | None:
    decoder = json.JSONDecoder()
    found: dict[str, Any] | None = None
    at = text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except RecursionError:  # no real answer nests so deeply, and trying every level would take seconds
            return found
        except ValueError:
            end = at + 1
        else:
            found = value if isinstance(value, dict) and value else found
        at = text.find("{", end)
    return found
