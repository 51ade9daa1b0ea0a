"""Answers as JSON, and the questions before them. Ten hits have 60 KB of text; orjson writes them in a tenth of the
time of the standard library. It stands alone because routes and pages write answers, and neither imports the other."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, Field

from surefind.base.access import Caller
from surefind.base.redact import without_addresses
from surefind.base.types import History, SearchResult, Turn
from surefind.engine.search.history import MOST_CITED, MOST_TURNS
from surefind.engine.search.reader import MAX_QUERY


class TurnRequest(BaseModel):
    """A question that was asked before."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(max_length=MAX_QUERY, description="The question.")
    documents: list[Annotated[str, Field(max_length=1_000)]] = Field(
        default_factory=list, max_length=MOST_CITED, description="The documents that its answer cited."
    )


Turns = Annotated[
    list[TurnRequest],
    Field(
        default_factory=list,
        max_length=MOST_TURNS,
        description="The questions before, oldest first. A question that leans on the last one is searched with it.",
    ),
]


def turns_of(history: Sequence[TurnRequest]) -> History:
    return tuple(Turn(turn.query, tuple(turn.documents)) for turn in history)


_INSIDE = ("trace", "note", "pipeline", "model", "confidence_from")
"""The parts of an answer that say how it was made. Specs and errors name servers and folders."""


def as_json(data: Any) -> bytes:
    """Returns data as JSON. orjson refuses whole numbers of more than 64 bits, which front matter may contain."""
    try:
        return bytes(orjson.dumps(data))
    except TypeError:
        return json.dumps(data, ensure_ascii=False).encode("utf-8", "replace")


class KnownAnswer:
    """A result, and its JSON for admins and for others, written when it is first needed."""

    def __init__(self, result: SearchResult) -> None:
        self.result = result
        self._written: dict[bool, bytes] = {}

    def json_for(self, caller: Caller, **more: Any) -> bytes:
        """Returns the result as the caller may see it, with more keys at its end."""
        admin = caller.may("admin")
        if admin not in self._written:
            self._written[admin] = as_json(shown_to(caller, self.result.to_dict()))
        return self._written[admin][:-1] + b"," + as_json(more)[1:]

    def __len__(self) -> int:
        """About how many bytes it takes: the texts, twice, and what else a hit has."""
        hits = (hit for hit in (*self.result.hits, self.result.closest) if hit)
        return 3_000 + sum(3_000 + 2 * sys.getsizeof(hit.text) for hit in hits)


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
