"""The limits of `llm_segments`: how many chunks a text may become, and whether an answer respects this.

    τ = round(words / per_chunk)        chunks in [max(2, τ - 3), τ + 3]

(Section 3.1.4.2 of the agentic-knowledge-base study, which has per_chunk = 1,000.)
"""

from __future__ import annotations

import re

from surefind.engine.llm.permutation import in_a_row

_SLACK = 3
_MIN_CHUNKS = 2


def chunk_range(words: int, per_chunk: int) -> tuple[int, int]:
    """The smallest and the largest allowed number of chunks. Halves round up, so that 500 words at 1,000 per chunk give
    a target of one chunk, not zero."""
    target = int(words / per_chunk + 0.5)
    return max(_MIN_CHUNKS, target - _SLACK), target + _SLACK


def read_breakpoints(reply: str, sentences: int, low: int, high: int) -> list[int] | str:
    """The numbers of the sentences that begin a chunk, without the first; or a text that says what is wrong with the
    reply. That text becomes part of the next prompt."""
    numbers = re.findall(r"-?\d+", reply)
    if not numbers:
        return "it held no sentence numbers"
    if len(reply) > 12 * len(numbers) + 200:
        return "it held more than a list of sentence numbers"
    points = sorted({int(number[:9]) for number in numbers})
    outside = [point for point in points if not 0 < point < sentences]
    if outside:
        return f"{outside[0]} is not a sentence number from 1 to {sentences - 1}"
    if in_a_row(points):
        return "it named sentences one after another, not where topics change"
    if not low - 1 <= len(points) <= high - 1:
        return f"it gave {len(points)} breaking points instead of {low - 1} to {high - 1}"
    return points
