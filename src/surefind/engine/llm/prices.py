"""Prices of tokens: the user's prices first, then the table of list prices; models on this machine cost nothing.

Estimates the tokens of a step's prompts for cost quotes: round numbers, rather too high than too low.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import NamedTuple

from surefind.base.prompts.values import Calls, Workload
from surefind.engine.llm.address import Address

BYTES_PER_TOKEN = 3.5
"""Bytes of UTF-8 per token, used for cost estimates; servers report the tokens of real calls."""
_MIN_BYTES_PER_TOKEN = 2.0
"""Fewest bytes of UTF-8 per token, for text with many tokens: tables of figures, scripts without an alphabet."""
_WRAPPING = 400
"""Most tokens that a server adds to a prompt: role marks, the schema, instructions about tools."""
_REGION = ("us.", "eu.", "apac.", "global.")
"""Prefixes of Bedrock's inference profiles: the same model at the same price."""


class Price(NamedTuple):
    """Dollars per million tokens."""

    tokens_in: float
    tokens_out: float

    def of(self, tokens_in: int, tokens_out: int) -> float:
        return (tokens_in * self.tokens_in + tokens_out * self.tokens_out) / 1e6


def price_of(address: Address, given: Mapping[str, tuple[float, float]]) -> Price | None:
    """The price of a model; None if it is unknown. A listed model at an address on this machine has its list price,
    because the address must be a gateway."""
    if address.text in given:
        return Price(*given[address.text])
    free = Price(0.0, 0.0) if address.free else None
    provider, _, model = address.text.partition(":")
    if provider == "azure":
        provider = "openai"
    if provider == "bedrock":
        model = next((model.removeprefix(region) for region in _REGION if model.startswith(region)), model)
    listed = _list().get(provider, {})
    fitting = [name for name in listed if model == name or model.startswith((f"{name}-", f"{name}:"))]
    return listed[max(fitting, key=len)] if fitting else free


def tokens(size: int) -> int:
    """Estimates the tokens in `size` bytes."""
    return math.ceil(size / BYTES_PER_TOKEN)


def most_tokens(size: int) -> int:
    """The most tokens that `size` bytes of prompt can be, for the money reserved before a call."""
    return math.ceil(size / _MIN_BYTES_PER_TOKEN) + _WRAPPING


@cache
def _list() -> dict[str, dict[str, Price]]:
    text = resources.files("surefind.engine.llm").joinpath("prices.toml").read_text(encoding="utf-8")
    return {
        provider: {name: Price(*pair) for name, pair in rows.items()} for provider, rows in tomllib.loads(text).items()
    }


PROMPT = 300
"""Tokens of a prompt besides the texts it shows: instructions, the rule about fences, the query."""
_FENCE = 25
"""Tokens of the two tags around a text, including their marks."""
_PER_WORD = 1.4
"""Model tokens per Surefind token (a word or a punctuation mark)."""


def passages(work: Workload, count: int, most: int) -> int:
    """Estimates the tokens of `count` passages, each cut to `most` Surefind tokens."""
    return count * (min(work.chunk_tokens, round(most * _PER_WORD)) + _FENCE)


def text(words: int) -> int:
    """Estimates the tokens of a text of `words` Surefind tokens."""
    return round(words * _PER_WORD) + _FENCE


def calls(model: str | None, count: int, tokens_in: int, tokens_out: int) -> Calls:
    """`count` calls with `tokens_in` tokens of shown text and `tokens_out` tokens of answer each."""
    return Calls(model or "", count, count * (PROMPT + tokens_in), count * tokens_out)
