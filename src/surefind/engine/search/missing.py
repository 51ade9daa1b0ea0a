"""`missing=score`: scores the candidates that a retriever did not return, so that all rankings hold the same chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from surefind.base.access import Access
from surefind.base.protocols import Retriever
from surefind.base.types import PAD, IdArray, Query, Rankings
from surefind.engine.store.backend import View


def score_missing(
    rankings: Sequence[Rankings], queries: Sequence[Query], retrievers: Sequence[Retriever], view: View, access: Access
) -> list[Rankings]:
    """Extends each ranking of a query to the union of all of them: each candidate gets a score from every retriever."""
    return [
        _with_missing(ranking, _missing(ranking, rankings), queries, retriever, view, access)
        for ranking, retriever in zip(rankings, retrievers, strict=True)
    ]


def _missing(ranking: Rankings, rankings: Sequence[Rankings]) -> IdArray:
    """Returns, for each query, the candidates of other rankings that this ranking lacks, padded."""
    rows = []
    for q in range(len(ranking)):
        own = set(ranking.ids[q].tolist())
        rows.append(sorted({chunk_id for other in rankings for chunk_id in other.ids[q].tolist()} - own - {PAD}))
    table = np.full((len(rows), max(map(len, rows), default=0)), PAD, np.int64)
    for q, row in enumerate(rows):
        table[q, : len(row)] = row
    return table


def _with_missing(
    ranking: Rankings, missing: IdArray, queries: Sequence[Query], retriever: Retriever, view: View, access: Access
) -> Rankings:
    if not missing.shape[1]:
        return ranking
    scores = np.concatenate([ranking.scores, view.score(retriever, queries, missing, access)], axis=1)
    ids = np.concatenate([ranking.ids, missing], axis=1)
    scores = np.where(ids == PAD, -np.inf, scores).astype(np.float32)
    order = np.lexsort((np.where(ids == PAD, np.iinfo(np.int64).max, ids), -scores), axis=1)
    return replace(ranking, ids=np.take_along_axis(ids, order, 1), scores=np.take_along_axis(scores, order, 1))
