"""Children and parents: where small passages are searched and larger ones returned, a ranking counts each of the larger
ones once, at its best child, and goes on until there are enough of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from surefind.types import PAD, IntArray, Rankings


def enough(families: IntArray, k: int) -> int:
    """How many children hold k different parents for sure: those of the k-1 largest families and one more."""
    sizes = np.sort(np.bincount(families))[::-1]
    return int(sizes[: k - 1].sum()) + 1 if k <= len(sizes) else len(families)


def fold(rankings: Rankings, families: IntArray, k: int) -> Rankings:
    """The first k children of different parents, each with its own score. `families[ordinal]` is a child's parent."""
    there = rankings.ordinals != PAD
    parents = np.where(there, families[np.where(there, rankings.ordinals, 0)], -1)
    order = np.argsort(parents, axis=1, kind="stable")
    ordered = np.take_along_axis(parents, order, 1)
    first = np.ones(parents.shape, np.bool_)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    kept = np.zeros_like(first)
    np.put_along_axis(kept, order, first, 1)
    kept &= there
    close = np.argsort(~kept, axis=1, kind="stable")[:, :k]
    ordinals = np.take_along_axis(np.where(kept, rankings.ordinals, PAD), close, 1)
    scores = np.take_along_axis(np.where(kept, rankings.scores, -np.inf), close, 1)
    return replace(rankings, ordinals=ordinals.astype(np.int32), scores=scores.astype(np.float32))
