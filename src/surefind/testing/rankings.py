"""Checks rankings of any origin, and makes rankings for tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surefind.base.types import EVERY, PAD, Mask, Rankings, Signal
from surefind.testing._rule import rule

TOLERANCE = 1e-5
"""Allowed difference between two computations of the same score, since the order of additions may differ."""

Row = tuple[Sequence[int], Sequence[float]]


def rankings_of(rows: Sequence[Row], source: str = "bm25", signal: Signal = "sparse", floor: float = 0.0) -> Rankings:
    """Makes padded Rankings from rows: `[([3, 1], [9.0, 4.0]), ([], [])]` -> Rankings of two queries."""
    width = max((len(ids) for ids, _ in rows), default=0)
    made = np.full((len(rows), width), PAD, np.int64), np.full((len(rows), width), -np.inf)
    for i, row in enumerate(rows):
        for array, values in zip(made, row, strict=True):
            array[i, : len(values)] = values
    return Rankings(*made, source, signal, floor)


def check_rankings(rankings: Rankings, queries: int, k: int, chunks: int | None = None, allow: Mask = EVERY) -> None:
    """Checks the rankings of any retriever, fuser or reranker. Pass the number of chunks as `chunks` if ids are places
    in an index."""
    ids, scores = rankings.ids, rankings.scores
    rule(ids.shape == scores.shape, f"Ids {ids.shape} and scores {scores.shape} must have the same shape.")
    rule(ids.ndim == 2 and len(ids) == queries, f"Ids must have {queries} rows, one per query: {ids.shape}.")
    rule(ids.shape[1] <= k, f"A row must have at most k = {k} chunks, not {ids.shape[1]}.")
    rule(ids.dtype == np.int64, f"Ids must be int64, not {ids.dtype}.")
    rule(scores.dtype in (np.float32, np.float64), f"Scores must be float32 or float64, not {scores.dtype}.")
    for i in range(queries):
        _check_row(ids[i].tolist(), scores[i].tolist(), f"row {i} of {rankings.source}", chunks, allow)


def _check_row(ids: list[int], scores: list[float], where: str, chunks: int | None, allow: Mask) -> None:
    filled = sum(chunk_id != PAD for chunk_id in ids)
    filled_ids = ids[:filled]
    rule(PAD not in filled_ids, f"Padding must be at the end: {where}.")
    rule(all(score == -np.inf for score in scores[filled:]), f"Padding must have score -inf: {where}.")
    rule(all(np.isfinite(score) for score in scores[:filled]), f"Scores must be finite numbers: {where}.")
    rule(
        all(chunk_id >= 0 and (chunks is None or chunk_id < chunks) for chunk_id in filled_ids),
        f"Ids must name chunks: {where}.",
    )
    rule(len(set(filled_ids)) == len(filled_ids), f"No chunk may be found twice: {where}.")
    order = sorted(range(filled), key=lambda j: (-scores[j], filled_ids[j]))
    rule(order == list(range(filled)), f"Rows must be sorted by score, then by id: {where}.")
    rule(
        allow.bits is None or all(allow.bits[o] for o in filled_ids), f"A chunk that is not allowed was found: {where}."
    )


def scores_of(rankings: Rankings, i: int) -> dict[int, float]:
    ids, scores = rankings.row(i)
    return dict(zip(ids.tolist(), scores.tolist(), strict=True))


def same_row(a: Rankings, i: int, b: Rankings, j: int, sentence: str) -> None:
    left, right = scores_of(a, i), scores_of(b, j)
    same = left.keys() == right.keys() and all(abs(left[o] - right[o]) <= TOLERANCE for o in left)
    rule(same, f"{sentence}: query {j} differs.")
