"""Scoring what a retriever did not return: each ranking of a query completed to the union of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from surefind.errors import SpecError
from surefind.protocols import Index, Retriever
from surefind.types import PAD, BoolArray, IntArray, Query, Rankings


def complete(
    rankings: Sequence[Rankings],
    queries: Sequence[Query],
    ready: Sequence[tuple[Retriever, Index]],
    allow: BoolArray | None = None,
) -> list[Rankings]:
    """With `missing=score`: every candidate has the score of every retriever, found by it or not."""
    return [
        _completed(ranking, _missing(ranking, rankings), queries, retriever, index, allow)
        for ranking, (retriever, index) in zip(rankings, ready, strict=True)
    ]


def _missing(ranking: Rankings, rankings: Sequence[Rankings]) -> IntArray:
    """Per query the candidates of the others that this ranking does not hold, padded."""
    rows = []
    for q in range(len(ranking)):
        union = np.unique(np.concatenate([other.ordinals[q] for other in rankings]))
        rows.append(np.setdiff1d(union[union != PAD], ranking.ordinals[q], assume_unique=False))
    table = np.full((len(rows), max(map(len, rows), default=0)), PAD, np.int32)
    for q, row in enumerate(rows):
        table[q, : len(row)] = row
    return table


def _completed(
    ranking: Rankings,
    missing: IntArray,
    queries: Sequence[Query],
    retriever: Retriever,
    index: Any,
    allow: BoolArray | None,
) -> Rankings:
    if not missing.shape[1]:
        return ranking
    if not hasattr(index, "score"):
        raise SpecError(f"{retriever} cannot score single passages. Leave out missing=score, or the retriever.")
    # A score by way of other chunks must not go by way of those that the caller may not read.
    mask = (allow,) if retriever.signal == "graph" else ()
    scores = np.concatenate([ranking.scores, index.score(retriever, queries, missing, *mask)], axis=1)
    ordinals = np.concatenate([ranking.ordinals, missing], axis=1)
    scores = np.where(ordinals == PAD, -np.inf, scores).astype(np.float32)
    order = np.lexsort((np.where(ordinals == PAD, np.iinfo(np.int32).max, ordinals), -scores), axis=1)
    return replace(
        ranking, ordinals=np.take_along_axis(ordinals, order, 1), scores=np.take_along_axis(scores, order, 1)
    )
