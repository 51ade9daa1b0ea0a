"""Helpers of encoders and rerankers behind a network: prepare texts, make batches and unit vectors, estimate the cost.

A module of its own, because two encoders and a reranker use it, and each public module of their rooms is a stage.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from surefind.base.types import FloatArray

BYTES_PER_TOKEN = 3.5
"""Bytes of UTF-8 per token, used for cost estimates. For MiniLM it is 3.7 on the sample's Markdown and 3.3 on our
source code; other models are similar."""
_BLANK = "."
"""Sent instead of an empty text, which most servers refuse."""


def sendable(text: str, longest: int) -> str:
    """Cuts a text and replaces lone surrogates; the result is never blank."""
    cut = text[:longest].encode("utf-8", "replace").decode()
    return cut if cut.strip() else _BLANK


def batches(texts: Sequence[str], count: int, characters: int) -> Iterator[list[str]]:
    """Yields batches in order, of at most `count` texts and `characters` characters (a longer text goes alone)."""
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (len(batch) == count or size + len(text) > characters):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch


def unit_rows(rows: Any) -> FloatArray | None:
    """Scales rows of numbers to length one; returns None for anything else (ragged rows, text, NaN, zeros)."""
    try:
        table = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    if table.ndim != 2 or not table.size or not np.isfinite(table).all():
        return None
    largest = np.abs(table).max(axis=1, keepdims=True)
    if not largest.all():
        return None
    scaled = table / largest  # so that squares neither overflow nor vanish
    return np.asarray(scaled / np.linalg.norm(scaled, axis=1, keepdims=True), dtype=np.float32)


def quote(texts: Sequence[str], price_per_million: float) -> float:
    """Estimates the dollars from the size of the texts."""
    tokens = sum(math.ceil(len(text.encode()) / BYTES_PER_TOKEN) for text in texts)
    return tokens * price_per_million / 1e6
