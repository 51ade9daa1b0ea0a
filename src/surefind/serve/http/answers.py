"""Answers as JSON. Ten hits have 60 KB of text; orjson writes them in a tenth of the time of the standard library."""

from __future__ import annotations

import json
from typing import Any

import orjson

from surefind.redact import without_addresses
from surefind.serve.auth.caller import Caller

_INSIDE = ("trace", "note", "pipeline", "model", "confidence_from")
"""The parts of an answer that say how it was made. Specs and errors name servers and folders."""


def as_json(data: Any) -> bytes:
    """Returns data as JSON. orjson refuses whole numbers of more than 64 bits, which front matter may contain."""
    try:
        return bytes(orjson.dumps(data))
    except TypeError:
        return json.dumps(data, ensure_ascii=False).encode("utf-8", "replace")


def shown_to(caller: Caller, data: dict[str, Any]) -> dict[str, Any]:
    """Returns an answer as a caller may see it: others than admins learn no address or folder of the server."""
    if caller.may("admin"):
        return data
    return data | {key: _discreet(data[key]) for key in _INSIDE if key in data}


def _discreet(value: Any) -> Any:
    if isinstance(value, str):
        return without_addresses(value)
    if isinstance(value, dict):
        return {key: _discreet(item) for key, item in value.items()}
    return [_discreet(item) for item in value] if isinstance(value, list | tuple) else value
