"""Children and parents: where small passages are searched and larger ones returned, a ranking counts each of the larger
ones once, at its best child."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from surefind.types import PAD, BoolArray, IdArray, Rankings


def fold(rankings: Rankings, parents: IdArray) -> Rankings:
    """The best child of each parent, with its own score. `parents` are the numbers of the children's parents, in the
    ranking's shape."""
    there = rankings.ids != PAD
    order = np.argsort(parents, axis=1, kind="stable")
    ordered = np.take_along_axis(parents, order, 1)
    first = np.ones(parents.shape, np.bool_)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    kept = np.zeros_like(first)
    np.put_along_axis(kept, order, first, 1)
    return _closed_up(rankings, kept & there)


def short(rankings: Rankings, want: int) -> BoolArray:
    """The rows that hold fewer than `want`."""
    return np.asarray(np.count_nonzero(rankings.ids != PAD, axis=1) < want)


def extend(rankings: Rankings, rows: IdArray, more: Rankings, parents: Callable[[IdArray], IdArray | None]) -> Rankings:
    """Some rows of a ranking, gone on with what `more` holds beside. Scores of another look are of another scale, so
    those that come after stay at or below the last one before."""
    wide = rankings.ids.shape[1] + more.ids.shape[1]
    ids = np.full((len(rankings), wide), PAD, np.int64)
    scores = np.full((len(rankings), wide), -np.inf, np.result_type(rankings.scores, more.scores))
    ids[:, : rankings.ids.shape[1]], scores[:, : rankings.ids.shape[1]] = rankings.ids, rankings.scores
    mine, theirs = parents(rankings.ids), parents(more.ids)
    mine, theirs = (rankings.ids, more.ids) if mine is None or theirs is None else (mine, theirs)
    for at, row in enumerate(rows.tolist()):
        n = int(np.count_nonzero(rankings.ids[row] != PAD))
        new = (more.ids[at] != PAD) & ~np.isin(theirs[at], mine[row, :n])
        found = more.ids[at][new]
        ids[row, n : n + len(found)] = found
        last = scores[row, n - 1] if n else np.inf
        scores[row, n : n + len(found)] = np.minimum(more.scores[at][new], last)
    return _narrowed(replace(rankings, ids=ids, scores=scores))


def _closed_up(rankings: Rankings, kept: BoolArray) -> Rankings:
    close = np.argsort(~kept, axis=1, kind="stable")
    ids = np.take_along_axis(np.where(kept, rankings.ids, PAD), close, 1)
    scores = np.take_along_axis(np.where(kept, rankings.scores, -np.inf), close, 1)
    return _narrowed(replace(rankings, ids=ids, scores=scores))


def _narrowed(rankings: Rankings) -> Rankings:
    """Without columns that are all padding."""
    width = int(np.max(np.count_nonzero(rankings.ids != PAD, axis=1), initial=0))
    return replace(rankings, ids=rankings.ids[:, :width], scores=rankings.scores[:, :width])
