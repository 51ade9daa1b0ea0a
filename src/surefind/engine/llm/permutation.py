"""Reads the order that a model returns, and repairs its mistakes.

    numbers out of range          dropped
    numbers named twice           the first counts
    numbers not named             follow in their previous order

An answer that names fewer than half of the numbers asked for is not an order: the previous order is kept. One that
names neighbours in a row, such as `1 2 3 4` or `10 9 8 7 6`, says nothing: models that cannot rank answer so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from surefind.base.prompts.fence import Data
from surefind.base.text.tokens import token_spans
from surefind.base.types import Chunk
from surefind.engine.llm.reply import read_object, without_reasoning

NO_ORDER = "The answer contained no order of the passages, or only the one given, its reverse, or the prompt's example."

_MAX_READ_CHARS = 100_000
"""Most characters of an answer that are read, from its end."""
_ROW = 4
"""Numbers that are neighbours in a row, from which on they say nothing: with fewer it may be chance."""
_ARRAY = re.compile(r"\[(?=[\s,]*\d)[\s\d,]*+\]")
_RANKGPT = re.compile(r"\[\s*\d+\s*\](?:\s*[>,]\s*\[\s*\d+\s*\])+")
"""`[3] > [1] > [2]`, which models trained on RankGPT's prompt write in any case."""


class Order(NamedTuple):
    places: list[int]
    """The places of all passages, from 0."""
    repaired: list[str]
    """The repairs that were needed."""
    informs: bool
    """Whether it says anything."""


def read_order(reply: str, count: int, asked: int) -> Order | None:
    """Returns the order of the reply over all `count` passages; None if the reply has no order. `asked` is how many
    numbers the reply should have named."""
    numbers = _numbers(reply)
    inside = [number for number in numbers if 1 <= number <= count]
    named = list(dict.fromkeys(number - 1 for number in inside))
    if not named or 2 * len(named) < min(asked, count):
        return None
    repaired = []
    if len(inside) < len(numbers):
        repaired.append(f"{len(numbers) - len(inside)} numbers out of range dropped")
    if len(named) < len(inside):
        repaired.append(f"{len(inside) - len(named)} repeated numbers dropped")
    if len(named) < min(asked, count):
        repaired.append(f"{min(asked, count) - len(named)} missing numbers appended")
    rest = sorted(set(range(count)) - set(named))
    return Order(named + rest, repaired, not in_a_row(named))


def _numbers(reply: str) -> list[int]:
    """The numbers of the requested object, or else of the last list: models that think aloud end with the answer."""
    text = without_reasoning(reply)[-_MAX_READ_CHARS:]
    listed = (read_object(text) or {}).get("ranking")
    if isinstance(listed, list):
        return [int(value) for value in listed if re.fullmatch(r"-?\d{1,18}", str(value))]
    orders = [match.group() for match in (*_ARRAY.finditer(text), *_RANKGPT.finditer(text))]
    chains = [order for order in orders if ">" in order]
    last = chains[-1] if chains else orders[-1] if orders else ""
    return [int(number) for number in re.findall(r"\d{1,9}", last)]


def in_a_row(named: Sequence[int]) -> bool:
    """Whether numbers are neighbours in a row, up or down: they repeat a list, and say nothing about it."""
    steps = {second - first for first, second in pairwise(named)}
    return len(named) >= _ROW and steps in ({1}, {-1})


def in_order(ids: Sequence[int]) -> list[tuple[int, float]]:
    """Gives scores to passages that have only an order: 1 for the first, then evenly decreasing."""
    return [(number, 1 - place / len(ids)) for place, number in enumerate(ids)]


def shown(chunks: Sequence[Chunk], tokens: int) -> list[Data]:
    """Passages for a prompt, numbered from 1, each with its context or headings and at most `tokens` of its text."""
    return [Data("passage", describe(chunk, tokens), number) for number, chunk in enumerate(chunks, 1)]


def describe(chunk: Chunk, tokens: int) -> str:
    title = chunk.context or " > ".join(chunk.headings)
    text = clip(chunk.text, tokens)
    return f"{title}\n{text}" if title else text


def clip(text: str, tokens: int) -> str:
    spans = token_spans(text)
    return text if len(spans) <= tokens else f"{text[: spans[tokens - 1][1]]} …"
