"""Calls of language models and their answers, as plain frozen values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Role = Literal["system", "user", "assistant"]


class Message(NamedTuple):
    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Request:
    """One call, without the model it goes to."""

    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    """The JSON schema of the answer. Endpoints that can enforce it do; others get it in the prompt."""
    max_tokens: int = 512
    temperature: float = 0.0
    repeat: int = 0
    """The same call with another number is another call: its answer is not taken from the cache of the first."""

    @property
    def size(self) -> int:
        """Bytes of text in all messages."""
        return sum(len(message.content.encode("utf-8", "replace")) for message in self.messages)

    def key(self, model: str) -> bytes:
        """The cache key: equal for equal calls of the same model."""
        parts = [
            model,
            [list(message) for message in self.messages],
            self.schema,
            self.max_tokens,
            self.temperature,
            *([self.repeat] if self.repeat else []),
        ]
        text = json.dumps(parts, ensure_ascii=True, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Completion:
    text: str
    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float = 0.0
    """The price of the call, also if the answer came from the cache and nothing was paid now."""
    cached: bool = False
    cut: bool = False
    """Whether the answer was cut at `max_tokens`."""
    model: str = ""
    """The model that answered: the fallback, if the chosen model failed."""
    seconds: float = 0.0
    """Seconds that the call took when it was made."""


@dataclass(frozen=True)
class Workload:
    """The size of the work ahead, in round numbers; a stage uses the fields that concern it."""

    queries: int = 0
    documents: int = 0
    chunks: int = 0
    document_tokens: int = 0
    """Average tokens of one document."""
    chunk_tokens: int = 0
    query_tokens: int = 0
    """The most model tokens by which queries are longer than those that people type: other stages made them."""


@dataclass(frozen=True)
class Calls:
    """The most calls that a stage will make; those answered from the cache will be free."""

    model: str
    calls: int
    tokens_in: int
    tokens_out: int
