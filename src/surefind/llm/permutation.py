"""Reads the order that a model returns, and repairs its mistakes.

    numbers out of range          dropped
    numbers named twice           the first counts
    numbers not named             follow in their previous order

An answer that names fewer than half of the numbers asked for is not an order: the previous order is kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from surefind.llm.reply import read_object, without_reasoning
from surefind.prompts.fence import Data
from surefind.text.tokens import token_spans
from surefind.types import Chunk

NO_ORDER = "The answer contained no order of the passages."

_LONGEST = 100_000
"""Most characters of an answer that are read, from its end."""
_ARRAY = re.compile(r"\[(?=[\s,]*\d)[\s\d,]*+\]")
_RANKGPT = re.compile(r"\[\s*\d+\s*\](?:\s*[>,]\s*\[\s*\d+\s*\])+")
"""`[3] > [1] > [2]`, which models trained on RankGPT's prompt write in any case."""


def read_order(reply: str, count: int, asked: int) -> tuple[list[int], list[str]] | None:
    """Returns the places (from 0) of all `count` passages in the order of the reply, and the repairs that were needed;
    None if the reply has no order. `asked` is how many numbers the reply should have named."""
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
    return named + rest, repaired


def _numbers(reply: str) -> list[int]:
    """The numbers of the requested object, or else of the last list: models that think aloud end with the answer."""
    text = without_reasoning(reply)[-_LONGEST:]
    listed = (read_object(text) or {}).get("ranking")
    if isinstance(listed, list):
        return [int(value) for value in listed if re.fullmatch(r"-?\d{1,18}", str(value))]
    found = [match.group() for match in (*_ARRAY.finditer(text), *_RANKGPT.finditer(text))]
    chains = [order for order in found if ">" in order]
    last = chains[-1] if chains else found[-1] if found else ""
    return [int(number) for number in re.findall(r"\d{1,9}", last)]


def merge(orders: Sequence[Sequence[int]]) -> list[int]:
    """Merges several orders of the same places: by mean position, ties by place."""
    size = len(orders[0])
    total = [0] * size
    for order in orders:
        for position, place in enumerate(order):
            total[place] += position
    return sorted(range(size), key=lambda place: (total[place], place))


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
