"""Folds children into parents: if small passages are searched and larger ones returned, a ranking holds each larger
passage once, at the rank of its best child."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from surefind.base.types import PAD, BoolArray, IdArray, Rankings


def fold(rankings: Rankings, parents_of: Callable[[IdArray], IdArray | None]) -> Rankings:
    """Keeps the best child of each parent, with the child's score. `parents_of` returns the number of each child's
    parent, in the shape of the ranking; None if passages have no parents, and then nothing changes."""
    parents = parents_of(rankings.ids)
    if parents is None:
        return rankings
    there = rankings.ids != PAD
    order = np.argsort(parents, axis=1, kind="stable")
    ordered = np.take_along_axis(parents, order, 1)
    first = np.ones(parents.shape, np.bool_)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    kept = np.zeros_like(first)
    np.put_along_axis(kept, order, first, 1)
    return _closed_up(rankings, kept & there)


def short(rankings: Rankings, want: int) -> BoolArray:
    """Returns which rows hold fewer than `want` chunks."""
    return np.asarray(np.count_nonzero(rankings.ids != PAD, axis=1) < want)


def extend(rankings: Rankings, rows: IdArray, more: Rankings, parents: Callable[[IdArray], IdArray | None]) -> Rankings:
    """Appends to some rows of a ranking the passages of `more` that they do not hold yet. Scores of a deeper search may
    have another scale, so appended scores are capped at the last score before them."""
    wide = rankings.ids.shape[1] + more.ids.shape[1]
    ids = np.full((len(rankings), wide), PAD, np.int64)
    scores = np.full((len(rankings), wide), -np.inf, np.result_type(rankings.scores, more.scores))
    ids[:, : rankings.ids.shape[1]], scores[:, : rankings.ids.shape[1]] = rankings.ids, rankings.scores
    known, added = parents(rankings.ids), parents(more.ids)
    known, added = (rankings.ids, more.ids) if known is None or added is None else (known, added)
    for at, row in enumerate(rows.tolist()):
        n = int(np.count_nonzero(rankings.ids[row] != PAD))
        new = (more.ids[at] != PAD) & ~np.isin(added[at], known[row, :n])
        new_ids = more.ids[at][new]
        ids[row, n : n + len(new_ids)] = new_ids
        last = scores[row, n - 1] if n else np.inf
        scores[row, n : n + len(new_ids)] = np.minimum(more.scores[at][new], last)
    return _narrowed(replace(rankings, ids=ids, scores=scores))


def _closed_up(rankings: Rankings, kept: BoolArray) -> Rankings:
    """Removes the chunks that are not kept, and moves the others up."""
    close = np.argsort(~kept, axis=1, kind="stable")
    ids = np.take_along_axis(np.where(kept, rankings.ids, PAD), close, 1)
    scores = np.take_along_axis(np.where(kept, rankings.scores, -np.inf), close, 1)
    return _narrowed(replace(rankings, ids=ids, scores=scores))


def _narrowed(rankings: Rankings) -> Rankings:
    """Removes columns that are all padding."""
    width = int(np.max(np.count_nonzero(rankings.ids != PAD, axis=1), initial=0))
    return replace(rankings, ids=rankings.ids[:, :width], scores=rankings.scores[:, :width])
