"""Checks rerankers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surefind.base.protocols import Passages, Reranker, Services
from surefind.base.types import PAD, Query, Rankings
from surefind.engine.services import LocalServices
from surefind.testing._rule import rule
from surefind.testing.rankings import check_rankings, rankings_of, same_row


def check_reranker(
    reranker: Reranker,
    queries: Sequence[Query],
    rankings: Rankings,
    passages: Passages,
    k: int = 3,
    services: Services | None = None,
) -> None:
    """Checks that a reranker returns the best k of its candidates, whatever batch a query is in."""
    services = services or LocalServices()
    before = rankings.ids.copy(), rankings.scores.copy()
    highest = int(rankings.ids.max(initial=0)) + 1
    reranked = reranker.rerank(queries, rankings, passages, k, services)
    check_rankings(reranked, len(queries), k, highest)
    unchanged = np.array_equal(before[0], rankings.ids) and np.array_equal(before[1], rankings.scores)
    rule(unchanged, "A reranker must not change the ranking that it is given.")
    for i, query in enumerate(queries):
        given, returned = set(rankings.row(i)[0].tolist()), set(reranked.row(i)[0].tolist())
        rule(returned <= given, f"A reranker must not invent candidates: query {i} found {returned - given}.")
        rule(len(returned) == min(k, len(given)), f"A reranker must return k candidates, if it has as many: query {i}.")
        ordinals, scores = rankings.row(i)
        single = rankings_of([(ordinals.tolist(), scores.tolist())], rankings.source, rankings.signal, rankings.floor)
        alone = reranker.rerank([query], single, passages, k, services)
        same_row(alone, 0, reranked, i, "A query's answer must not depend on the batch")
    nothing = reranker.rerank(queries[:1], rankings_of([([], [])]), passages, k, services)
    check_rankings(nothing, 1, k, highest)
    rule((nothing.ids == PAD).all(), "A reranker must return an empty row for an empty row.")
