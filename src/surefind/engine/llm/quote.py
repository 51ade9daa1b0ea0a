"""Estimates the LLM calls, tokens, dollars and minutes of a run before it starts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from surefind.base.prompts.values import Calls

if TYPE_CHECKING:
    from surefind.engine.llm.models import Models

SECONDS = 2.0
"""Assumed seconds per call until the model has been timed."""


@dataclass(frozen=True)
class CallQuote:
    calls: int = 0
    tokens: int = 0
    dollars: float = 0.0
    minutes: float = 0.0
    unpriced: tuple[str, ...] = ()
    """Models whose price is unknown."""

    def __str__(self) -> str:
        price = f"about ${self.dollars:,.2f}"
        if self.unpriced:
            price += f" plus the cost of {', '.join(self.unpriced)}, which is unknown"
        return f"{self.calls:,} calls, {_round(self.tokens)} tokens, {price}, about {_duration(self.minutes)}"

    @property
    def costs(self) -> bool:
        return self.dollars > 0 or bool(self.unpriced)


def quote(models: Models, planned: Iterable[Calls]) -> CallQuote:
    total = CallQuote()
    for calls in planned:
        chat = models.chat(calls.model)
        seconds = (models.cache.seconds(chat.name) if models.cache else None) or SECONDS
        price = chat.price.of(calls.tokens_in, calls.tokens_out) if chat.price else 0.0
        unpriced = () if chat.price or chat.name in total.unpriced else (chat.name,)
        total = CallQuote(
            total.calls + calls.calls,
            total.tokens + calls.tokens_in + calls.tokens_out,
            total.dollars + price,
            total.minutes + calls.calls * seconds / chat.concurrency / 60,
            total.unpriced + unpriced,
        )
    return total


def _round(count: int) -> str:
    return f"{count / 1e6:.1f}M" if count >= 1_000_000 else f"{count:,}"


def _duration(minutes: float) -> str:
    return f"{minutes * 60:.0f} s" if minutes < 2 else f"{minutes:.0f} minutes"
