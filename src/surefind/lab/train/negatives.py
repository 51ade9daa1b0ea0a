"""Mines hard negatives: passages that our own retrievers rank high for the question, from other documents.

The support-chatbot study took negatives from the positive's own document, and its encoder got worse: a neighbouring
passage often answers the question, too. So a negative is always from another document and has a different text.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surefind.base.access import Access
from surefind.base.protocols import OnProgress, Retriever
from surefind.base.types import Chunk, Query
from surefind.engine.store.backend import View
from surefind.lab.train.pairs import Pair

_DEPTH = 40
_BATCH = 256


def mine(
    view: View,
    chunks: Sequence[Chunk],
    pairs: Sequence[Pair],
    retrievers: Sequence[Retriever],
    count: int,
    report: OnProgress,
) -> list[list[int]]:
    """The places in `chunks` of up to `count` hard negatives for each pair, taken from the retrievers in turn, best
    first. `chunks` are all chunks of the view, in its order."""
    queries, spans = [Query(pair.query) for pair in pairs], view.spans()
    candidates: list[list[list[int]]] = [[] for _ in pairs]
    for retriever in retrievers:
        for at in range(0, len(queries), _BATCH):
            report(f"Mining with {retriever.name}", at, len(queries))
            rankings = view.search(retriever, queries[at : at + _BATCH], _DEPTH, Access.owner())
            for i in range(len(rankings)):
                candidates[at + i].append(spans.at(rankings.row(i)[0]).tolist())
        report(f"Mining with {retriever.name}", len(queries), len(queries))
    return [_chosen(pair, lists, chunks, count) for pair, lists in zip(pairs, candidates, strict=True)]


def _chosen(pair: Pair, lists: Sequence[Sequence[int]], chunks: Sequence[Chunk], count: int) -> list[int]:
    chosen: dict[int, None] = {}
    texts = {pair.passage}
    for turn in range(max(map(len, lists), default=0)):
        for ranked in lists:
            if turn < len(ranked) and len(chosen) < count:
                chunk = chunks[ranked[turn]]
                if chunk.document != pair.document and chunk.searchable not in texts:
                    chosen[ranked[turn]] = None
                    texts.add(chunk.searchable)
    return list(chosen)


def filled(
    negatives: Sequence[Sequence[int]], pairs: Sequence[Pair], chunks: Sequence[Chunk], count: int
) -> list[list[int]]:
    """Fills up the negatives to `count` for every pair, at random from other documents, the same each time."""
    rng = np.random.default_rng(0)
    rows = []
    for pair, row in zip(pairs, negatives, strict=True):
        full = list(row)
        for ordinal in rng.permutation(len(chunks)).tolist() if len(full) < count else ():
            if len(full) < count and chunks[ordinal].document != pair.document and ordinal not in full:
                full.append(ordinal)
        rows.append(full)
    return rows
