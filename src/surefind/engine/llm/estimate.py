"""Estimates the tokens of a step's prompts for cost quotes: round numbers, rather too high than too low."""

from __future__ import annotations

from surefind.base.prompts.values import Calls, Workload

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
