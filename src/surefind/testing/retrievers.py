"""Checks retrievers and their indexes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from surefind.base.abilities import Growing, Part, declared
from surefind.base.protocols import Index, Retriever, Reuse, ScoringIndex, Services, VectorIndex
from surefind.base.types import EVERY, PAD, Chunk, Mask, Query, Rankings
from surefind.testing.stages import TOLERANCE, check_rankings, rule, same_row, scores_of


def check_retriever(
    retriever: Retriever, chunks: Sequence[Chunk], queries: Sequence[Query], services: Services, folder: Path
) -> None:
    """Checks a retriever. `queries` should match some of `chunks`; `folder` is an empty folder that the check may write
    to."""
    index = built(retriever, chunks, services)
    every = _search(retriever, index, queries, len(chunks), len(chunks))
    rule(len(every.row(0)[0]) > 0, f"The first query must find something: {queries[0].text!r}.")
    _check_queries(retriever, index, queries, every, len(chunks))
    _check_depth(retriever, index, queries, every, len(chunks))
    if retriever.signal == "graph":
        _check_unseen(retriever, index, chunks, queries, services)
    else:
        _check_masks(retriever, index, queries, every, len(chunks))
    _check_abilities(retriever, index, queries, every)
    _check_saved(retriever, index, chunks, queries, every, services, folder)
    _check_reuse(retriever, chunks, queries, every, services)
    if isinstance(retriever, Growing):
        _check_parts(retriever, chunks, queries, every, services)
    nothing = _search(retriever, built(retriever, [], services), queries, 10, 0)
    rule(nothing.ids.size == 0 or (nothing.ids == PAD).all(), "An index without chunks must find nothing.")


def built(retriever: Retriever, chunks: Sequence[Chunk], services: Services, reuse: Reuse | None = None) -> Index:
    """Builds the index of a retriever, together with the indexes that it uses."""
    index = retriever.build(chunks, services, reuse)
    stage = declared(retriever)
    return stage.over(index, [built(one, chunks, services) for one in stage.uses])


def _search(
    retriever: Retriever, index: Index, queries: Sequence[Query], k: int, n: int, allow: Mask = EVERY
) -> Rankings:
    rankings = index.search(retriever, queries, k, allow)
    check_rankings(rankings, len(queries), k, n, allow)
    rule(rankings.signal == retriever.signal, f"Rankings must carry the retriever's signal, {retriever.signal}.")
    return rankings


def _check_queries(retriever: Retriever, index: Index, queries: Sequence[Query], every: Rankings, n: int) -> None:
    rule(len(_search(retriever, index, [], n, n)) == 0, "A search without queries must return no rows.")
    _search(retriever, index, [Query("qzxv wvxzq"), Query("?!")], n, n)
    for i, query in enumerate(queries):
        alone = _search(retriever, index, [query], n, n)
        same_row(alone, 0, every, i, "A query's answer must not depend on the batch")


def _check_depth(retriever: Retriever, index: Index, queries: Sequence[Query], every: Rankings, n: int) -> None:
    deeper = _search(retriever, index, queries, n + 100, n)
    for i in range(len(queries)):
        same_row(deeper, i, every, i, "A k above the number of chunks must return all chunks that match")
    few = _search(retriever, index, queries, 2, n)
    for i in range(len(queries)):
        best = every.row(i)[1][:2]
        close = np.allclose(few.row(i)[1], best, atol=TOLERANCE) if len(best) == len(few.row(i)[1]) else False
        rule(close, f"A smaller k must return the top of a larger k: query {i}.")


def _check_masks(retriever: Retriever, index: Index, queries: Sequence[Query], every: Rankings, n: int) -> None:
    """A mask must give the same result as filtering the full ranking: it applies before top-k, not after."""
    last = np.zeros(n, np.bool_)
    last[[int(every.row(i)[0][-1]) for i in range(len(queries)) if len(every.row(i)[0])]] = True
    odd = np.arange(n) % 2 == 1
    for bits in (last, odd, np.ones(n, np.bool_), np.zeros(n, np.bool_)):
        allow = Mask(bits)
        masked = _search(retriever, index, queries, n, n, allow)
        narrow = _search(retriever, index, queries, 1, n, allow)
        for i in range(len(queries)):
            expected = {o: s for o, s in scores_of(every, i).items() if bits[o]}
            row_scores = scores_of(masked, i)
            rule(row_scores.keys() == expected.keys(), f"A mask must leave exactly the allowed matches: query {i}.")
            close = all(abs(row_scores[o] - expected[o]) <= TOLERANCE for o in row_scores)
            rule(close, f"A mask must not change scores: query {i}.")
            rule(len(narrow.row(i)[0]) == min(1, len(expected)), f"A mask must be applied before top-k: query {i}.")


def _check_unseen(
    retriever: Retriever, index: Index, chunks: Sequence[Chunk], queries: Sequence[Query], services: Services
) -> None:
    """A masked search of a graph must equal a search in an index of the allowed chunks alone. A graph connects chunks,
    so removing forbidden chunks from the ranking is not enough."""
    n = len(chunks)
    for bits in (np.arange(n) % 2 == 1, np.arange(n) % 3 > 0, np.ones(n, np.bool_), np.zeros(n, np.bool_)):
        allow, seen = Mask(bits), np.flatnonzero(bits)
        alone = built(retriever, [chunks[i] for i in seen.tolist()], services)
        expected = _search(retriever, alone, queries, len(seen), len(seen))
        masked = _search(retriever, index, queries, n, n, allow)
        for i in range(len(queries)):
            wanted = {int(seen[o]): s for o, s in scores_of(expected, i).items()}
            row_scores = scores_of(masked, i)
            same = row_scores.keys() == wanted.keys() and all(
                abs(row_scores[o] - wanted[o]) <= TOLERANCE for o in row_scores
            )
            rule(same, f"A mask must answer as if the other chunks did not exist: query {i}.")


def _check_abilities(retriever: Retriever, index: Index, queries: Sequence[Query], every: Rankings) -> None:
    """The other abilities of an index (scores, neighbours) must agree with its search."""
    if isinstance(index, ScoringIndex):
        padded = np.concatenate([every.ids, np.full((len(queries), 1), PAD)], axis=1)
        scores = index.score(retriever, queries, padded, EVERY)
        there = every.ids != PAD
        close = np.allclose(scores[:, :-1][there], every.scores[there], atol=1e-4)
        rule(close, f"score() must return the same scores as search(): {retriever}.")
        rule(bool(np.isneginf(scores[:, -1]).all()), f"Padding must score -inf: {retriever}.")
    if isinstance(index, VectorIndex) and len(index):
        near = index.near([0, len(index) - 1], 3, EVERY)
        own = index.similarity(index.points(queries), every.ids[:, :1])
        rule(len(near) == 2, "near() must return a row for each given chunk.")
        rule(near.scores[0, 0] >= near.scores[0].max(), "near() must return the nearest neighbour first.")
        rule(own.shape == (len(queries), 1), "similarity() must return a value for each given id.")
        alone = index.near([0], 3, Mask(np.arange(len(index)) == 1))
        rule(alone.row(0)[0].tolist() == [1], "near() must return only chunks that the mask allows.")


def _check_saved(
    retriever: Retriever,
    index: Index,
    chunks: Sequence[Chunk],
    queries: Sequence[Query],
    every: Rankings,
    services: Services,
    folder: Path,
) -> None:
    index.save(folder)
    stage = declared(retriever)
    opened = stage.over(retriever.load(folder, services), [built(one, chunks, services) for one in stage.uses])
    loaded = opened.search(retriever, queries, every.ids.shape[1], EVERY)
    same = np.array_equal(loaded.ids, every.ids) and np.array_equal(loaded.scores, every.scores)
    rule(same, "An index that was saved and loaded must return exactly the same rankings.")


def _check_reuse(
    retriever: Retriever, chunks: Sequence[Chunk], queries: Sequence[Query], every: Rankings, services: Services
) -> None:
    """An index must be the same whether it is built from nothing, from an index with fewer chunks or from one with
    more."""
    n = len(chunks)
    half = retriever.build(chunks[::2], services)
    grown = built(retriever, chunks, services, Reuse(half, _places(range(n), range(0, n, 2))))
    for i in range(len(queries)):
        rankings = _search(retriever, grown, queries, n, n)
        same_row(rankings, i, every, i, "An index grown from an earlier one must equal one built from nothing")
    odd = range(1, n, 2)
    whole = retriever.build(chunks, services)
    shrunk = built(retriever, chunks[1::2], services, Reuse(whole, _places(odd, range(n))))
    fresh = built(retriever, chunks[1::2], services)
    a, b = (_search(retriever, index, queries, len(odd), len(odd)) for index in (shrunk, fresh))
    for i in range(len(queries)):
        same_row(a, i, b, i, "An index shrunk from an earlier one must equal one built from nothing")


def _check_parts(
    retriever: Growing, chunks: Sequence[Chunk], queries: Sequence[Query], every: Rankings, services: Services
) -> None:
    """An index of parts must answer as one that is built from nothing, also if chunks of a part are gone."""
    n = len(chunks)
    halves = [retriever.build(chunks[start::2], services) for start in (0, 1)]
    places = [np.arange(start, n, 2, dtype=np.int32) for start in (0, 1)]
    joined = retriever.join([Part(*half) for half in zip(halves, places, strict=True)], services)
    rankings = _search(retriever, joined, queries, n, n)
    for i in range(len(queries)):
        same_row(rankings, i, every, i, "An index of parts must equal one built from nothing")
    left = np.where(np.arange(n) % 2 == 0, np.arange(n) // 2, -1).astype(np.int32)
    rest = retriever.join([Part(retriever.build(chunks, services), left)], services)
    a, b = (_search(retriever, index, queries, len(halves[0]), len(halves[0])) for index in (rest, halves[0]))
    for i in range(len(queries)):
        same_row(a, i, b, i, "An index without chunks that are gone must equal one built without them")


def _places(wanted: range, earlier: range) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array([earlier.index(i) if i in earlier else -1 for i in wanted], dtype=np.int32)
