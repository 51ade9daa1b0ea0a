"""How many tokens a step's prompts hold, for quotes: round numbers, rather too many than too few."""

from __future__ import annotations

from surefind.prompts.values import Calls, Workload

PROMPT = 300
"""What a prompt says besides the texts it shows: instructions, the rule of the fence, the query."""
_FENCE = 25
"""The two tags around a text, with their marks."""
_PER_WORD = 1.4
"""A model's tokens in one of ours, which are words and punctuation marks."""


def passages(work: Workload, count: int, most: int) -> int:
    """`count` passages, each cut to `most` of our tokens."""
    return count * (min(work.chunk_tokens, round(most * _PER_WORD)) + _FENCE)


def text(words: int) -> int:
    """A text of so many of our tokens."""
    return round(words * _PER_WORD) + _FENCE


def calls(model: str | None, count: int, tokens_in: int, tokens_out: int) -> Calls:
    """`count` calls of so many tokens each."""
    return Calls(model or "", count, count * (PROMPT + tokens_in), count * tokens_out)
