"""Rerankers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surefind.protocols import Passages, Reranker
from surefind.services import Services
from surefind.testing._rule import rule
from surefind.testing.rankings import check_rankings, rankings_of, same_row
from surefind.types import PAD, Query, Rankings


def check_reranker(
    reranker: Reranker,
    queries: Sequence[Query],
    rankings: Rankings,
    passages: Passages,
    k: int = 3,
    services: Services | None = None,
) -> None:
    """The first k of the same candidates come back, sorted; a query's answer does not depend on the batch."""
    services = services or Services()
    before = rankings.ids.copy(), rankings.scores.copy()
    highest = int(rankings.ids.max(initial=0)) + 1
    reranked = reranker.rerank(queries, rankings, passages, k, services)
    check_rankings(reranked, len(queries), k, highest)
    unchanged = np.array_equal(before[0], rankings.ids) and np.array_equal(before[1], rankings.scores)
    rule(unchanged, "A reranker must leave the ranking it got alone.")
    for i, query in enumerate(queries):
        given, found = set(rankings.row(i)[0].tolist()), set(reranked.row(i)[0].tolist())
        rule(found <= given, f"A reranker must not invent candidates: query {i} found {found - given}.")
        rule(len(found) == min(k, len(given)), f"A reranker must return min(k, candidates): query {i}.")
        ordinals, scores = rankings.row(i)
        one = rankings_of([(ordinals.tolist(), scores.tolist())], rankings.source, rankings.signal, rankings.floor)
        alone = reranker.rerank([query], one, passages, k, services)
        same_row(alone, 0, reranked, i, "A query's answer must not depend on the batch")
    nothing = reranker.rerank(queries[:1], rankings_of([([], [])]), passages, k, services)
    check_rankings(nothing, 1, k, highest)
    rule((nothing.ids == PAD).all(), "Nothing to rerank must stay nothing.")
