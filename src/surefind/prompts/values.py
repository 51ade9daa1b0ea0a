"""What goes to a language model and what comes back: plain frozen values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Role = Literal["system", "user", "assistant"]


class Message(NamedTuple):
    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Request:
    """One call, without the model that it goes to."""

    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    """The JSON schema of the answer: endpoints that can hold a model to it do, others have it in the prompt."""
    max_tokens: int = 512
    temperature: float = 0.0
    logprobs: int = 0
    """How many alternatives are wanted for each token of the answer, with their log-probabilities."""

    @property
    def size(self) -> int:
        """Bytes of text."""
        return sum(len(message.content.encode("utf-8", "replace")) for message in self.messages)

    def key(self, model: str) -> bytes:
        """Equal for equal calls of the same model."""
        parts = [
            model,
            [list(message) for message in self.messages],
            self.schema,
            self.max_tokens,
            self.temperature,
            self.logprobs,
        ]
        text = json.dumps(parts, ensure_ascii=True, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Completion:
    text: str
    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float = 0.0
    """Its price, also where it came from the cache and nothing was paid now."""
    cached: bool = False
    logprobs: tuple[Mapping[str, float], ...] = field(default=())
    """For each token of the answer: the likeliest tokens there and their log-probabilities."""
    cut: bool = False
    """Whether it ended because `max_tokens` were reached."""
    model: str = ""
    """Who answered: the fallback, where the model that was asked could not."""
    seconds: float = 0.0
    """How long that took, when it was asked."""


@dataclass(frozen=True)
class Workload:
    """What there is to do, in round numbers: a stage takes those that concern it."""

    queries: int = 0
    documents: int = 0
    chunks: int = 0
    document_tokens: int = 0
    """Of one document, on average."""
    chunk_tokens: int = 0


@dataclass(frozen=True)
class Calls:
    """What a stage will ask for at most; what is in the cache will be free."""

    model: str
    calls: int
    tokens_in: int
    tokens_out: int
