"""Calls of language models and their answers, as plain frozen values.

Counts what is spent, and enforces the budget.

Before a call is sent, its highest possible price (the prompt's tokens and `max_tokens` of answer) is reserved. If that
would exceed the limit, the call waits for running calls, most of which cost less than was reserved for them. If it
would exceed the limit even then, it is refused. Answers are cached as they arrive, so a stopped job can go on later.
Raising the limit lifts the refusal and wakes the waiting calls.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from surefind.base.errors import BudgetError, UsageError

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


def money(dollars: float) -> str:
    """Formats dollars to the cent, and sums below 10 cents to a hundredth of a cent."""
    return f"${dollars:,.2f}" if dollars >= 0.1 or not dollars else f"${dollars:.4f}"


@dataclass(frozen=True)
class Spent:
    calls: int = 0
    cached: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float = 0.0

    def __str__(self) -> str:
        free = f" ({self.cached:,} from the cache)" if self.cached else ""
        used = self.tokens_in + self.tokens_out
        return f"{self.calls + self.cached:,} calls{free}, {used:,} tokens, ${self.dollars:.4f}"


class Meter:
    def __init__(self, limit: float | None = None) -> None:
        self.spent = Spent()
        self._limit: float | None = None
        self._reserved = 0.0
        self._in_flight = 0
        self._refused: float | None = None
        """The limit at which a call was last refused; None if none was."""
        self._lock = threading.Condition()
        self.limit = limit

    @property
    def limit(self) -> float | None:
        """Dollars that may be spent; None means no limit. It may be changed at any time."""
        return self._limit

    @limit.setter
    def limit(self, dollars: float | None) -> None:
        if dollars is not None and not dollars >= 0:  # nothing compares above NaN, so NaN would limit nothing
            raise UsageError(f"A budget must be 0 or more dollars, not {dollars}.")
        with self._lock:
            self._limit = dollars
            if dollars is None or (self._refused is not None and dollars > self._refused):
                self._refused = None
            self._lock.notify_all()

    def reserve(self, dollars: float) -> None:
        """Reserves money for a call; raises `BudgetError` if the call could exceed the limit."""
        with self._lock:
            while self._in_flight and self._exceeds(dollars):
                self._lock.wait()
            if self._exceeds(dollars):
                self._refused = self._limit
                raise self._stop()
            self._reserved += dollars
            self._in_flight += 1

    def release(self, dollars: float) -> None:
        """Releases the money reserved for a call that is over, successful or not."""
        with self._lock:
            self._reserved -= dollars
            self._in_flight -= 1
            self._lock.notify_all()

    def count(self, tokens_in: int, tokens_out: int, dollars: float, cached: bool) -> None:
        with self._lock:
            s = self.spent
            if cached:
                self.spent = Spent(s.calls, s.cached + 1, s.tokens_in, s.tokens_out, s.dollars)
            else:
                self.spent = Spent(
                    s.calls + 1, s.cached, s.tokens_in + tokens_in, s.tokens_out + tokens_out, s.dollars + dollars
                )

    def check(self) -> None:
        """Raises if a call was refused. Long jobs check after each step: a stage that falls back hides a refusal."""
        with self._lock:
            if self._refused is not None:
                raise self._stop()

    def _exceeds(self, dollars: float) -> bool:
        """Whether a call could exceed the limit. A free call never does, even if the limit has been exceeded."""
        limit = self._limit
        return limit is not None and dollars > 0 and self.spent.dollars + self._reserved + dollars > limit + 1e-9

    def _stop(self) -> BudgetError:
        limit, spent = money(self._limit or 0.0), money(self.spent.dollars)
        return BudgetError(
            f"The budget of {limit} is too small for the next call: {spent} was spent on {self.spent.calls:,} calls. "
            "Their answers are kept; run it again with a higher --budget to go on."
        )
