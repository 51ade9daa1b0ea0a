"""What tokens cost: the user's prices first, then the table of list prices; models on this machine cost nothing."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import NamedTuple

from surefind.llm.address import Address

BYTES_PER_TOKEN = 3.5
"""Of UTF-8, for quotes; servers report the tokens of real calls."""
_FEWEST_BYTES = 2.0
"""Of a token where text is dear: tables of figures, scripts without an alphabet."""
_WRAPPING = 400
"""Tokens that a server adds at most: marks of roles, the schema, what it tells a model about tools."""
_REGION = ("us.", "eu.", "apac.", "global.")
"""Bedrock's inference profiles: the same model at the same price."""


class Price(NamedTuple):
    """Dollars for a million tokens."""

    tokens_in: float
    tokens_out: float

    def of(self, tokens_in: int, tokens_out: int) -> float:
        return (tokens_in * self.tokens_in + tokens_out * self.tokens_out) / 1e6


def price_of(address: Address, given: Mapping[str, tuple[float, float]]) -> Price | None:
    """None where nobody has said what it costs. A listed model behind an address on this machine has its price as well:
    that is a gateway."""
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
    """About how many are in so many bytes."""
    return math.ceil(size / BYTES_PER_TOKEN)


def most_tokens(size: int) -> int:
    """How many so many bytes of prompt are at worst, for what is set aside before a call."""
    return math.ceil(size / _FEWEST_BYTES) + _WRAPPING


@cache
def _list() -> dict[str, dict[str, Price]]:
    text = resources.files("surefind.llm").joinpath("prices.toml").read_text(encoding="utf-8")
    return {
        provider: {name: Price(*pair) for name, pair in rows.items()} for provider, rows in tomllib.loads(text).items()
    }
