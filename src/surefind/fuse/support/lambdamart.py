"""LambdaMART at search time: boosted trees that correct the best static fusion.

    score(q, d) = scale · static(d) + trees(candidate(q, d), rich(q))      for the `REORDERED` best of the static fusion

The trees see, for each candidate, its score, both scalings and its rank in each ranking, and the features of the query.
They start from the static fusion: without trees the result *is* the static fusion, and little training data means
little change. Results below the `REORDERED` stay in place. Burges, From RankNet to LambdaRank to LambdaMART, 2010.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from surefind.fuse.support.features import Rarity, rich, rich_names
from surefind.fuse.support.join import present
from surefind.fuse.support.predictors import SOURCE, Embed, Norm, blend
from surefind.fuse.support.trees import Trees
from surefind.types import PAD, Floats, Rankings

REORDERED = 30
"""How many of the best results of the static fusion the trees reorder."""
SCALE = 5.0
"""Weight of the static fusion relative to the trees; its scores are from 0 to 1."""
_STATIC = ("static", "static_rank")
_SAID = ("score", "from_floor", "min_max", "rank")
_ABOUT = "static.json"
_TREES = "trees.npz"
_RARITY = "rarity.json"


@dataclass(frozen=True, eq=False)
class LambdaMART:
    kind: ClassVar[str] = "lambdamart"
    norm: Norm
    static: Floats
    """The weights of the fusion that the trees correct."""
    rarity: Rarity
    trees: Trees

    def fuse(self, texts: Sequence[str], rankings: Sequence[Rankings], embed: Embed, k: int) -> Rankings:
        before = blend(rankings, self.static[None], self.norm, max(k, REORDERED), SOURCE)
        if not len(self.trees.roots) or not texts:
            return first(before, k)
        rows = candidates(texts, rankings, before, self.rarity)
        there = present(before)[:, :REORDERED]
        gains = np.zeros(there.shape)
        gains[there] = self.trees.predict(rows)
        return first(corrected(before, gains), k)

    def save(self, folder: Path) -> None:
        self.trees.save(folder / _TREES)
        self.rarity.save(folder / _RARITY)
        about = {"norm": self.norm, "static": self.static.tolist()}
        (folder / _ABOUT).write_text(json.dumps(about), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> LambdaMART:
        about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
        rarity = Rarity.load(folder / _RARITY)
        return cls(about["norm"], np.array(about["static"]), rarity, Trees.load(folder / _TREES))


def corrected(before: Rankings, gains: Floats) -> Rankings:
    """Reorders the head of a ranking by its scores plus the gains of the trees; the rest stays below."""
    width = gains.shape[1]
    there = present(before)[:, :width]
    scores = np.where(there, SCALE * before.scores[:, :width] + gains, -np.inf)
    order = np.argsort(-scores, axis=1, kind="stable")
    head, scores = np.take_along_axis(before.ids[:, :width], order, 1), np.take_along_axis(scores, order, 1)
    tail = SCALE * before.scores[:, width:].astype(np.float64)
    if tail.shape[1]:
        least = np.min(scores, axis=1, keepdims=True, where=scores > -np.inf, initial=np.inf)
        with np.errstate(invalid="ignore"):
            tail = np.where(np.isneginf(tail), tail, tail + np.minimum(least - tail[:, :1], 0.0))
    return Rankings(
        np.concatenate([head, before.ids[:, width:]], axis=1),
        np.concatenate([scores, tail], axis=1),
        before.source,
        before.signal,
    )


def first(ranking: Rankings, k: int) -> Rankings:
    return Rankings(ranking.ids[:, :k], ranking.scores[:, :k], ranking.source, ranking.signal)


# ---------------------------------------------------------------- features


def candidates(texts: Sequence[str], rankings: Sequence[Rankings], before: Rankings, rarity: Rarity) -> Floats:
    """One row of features for each of the `REORDERED` candidates (fewer if fewer were found), query by query."""
    there = present(before)[:, :REORDERED]
    query, place = np.nonzero(there)
    wanted = before.ids[query, place]
    static = np.stack([before.scores[query, place], np.log(place + 1.0)], axis=1)
    said = [_said(ranking, query, wanted) for ranking in rankings]
    return np.concatenate([static, *said, rich(texts, rankings, rarity)[query]], axis=1)


def candidate_names(sources: Sequence[str]) -> list[str]:
    labels = [name if sources.count(name) == 1 else f"{name}:{i}" for i, name in enumerate(sources, 1)]
    return [*_STATIC, *(f"{label}_{what}" for label in labels for what in _SAID), *rich_names(sources)]


def _said(ranking: Rankings, query: NDArray[np.int64], wanted: NDArray[np.int64]) -> Floats:
    """The score, both scalings and the log of the rank of each candidate in one ranking. A candidate that is not in the
    ranking gets the worst value of each."""
    floor = float(ranking.floor) if np.isfinite(ranking.floor) else np.nan
    return np.asarray(_look_up(ranking.ids, ranking.scores.astype(np.float64), floor, query, wanted))


@njit(cache=True, nogil=True)
def _look_up(ids, scores, floor, query, wanted):  # type: ignore[no-untyped-def]
    """Looks the candidates up in one ranking. If the floor is NaN (unknown), the lowest score serves as the floor."""
    width = ids.shape[1]
    table = np.zeros((len(wanted), 4))
    for i in range(len(wanted)):
        row = query[i]
        at, count = width, 0
        while count < width and ids[row, count] != PAD:
            if ids[row, count] == wanted[i]:
                at = count
            count += 1
        best = scores[row, 0] if count else 0.0
        least = scores[row, count - 1] if count else 0.0
        listed = at < width
        table[i, 0] = scores[row, at] if listed else least
        table[i, 3] = np.log(at + 1.0)
        if listed:
            whole = best - least
            table[i, 2] = (scores[row, at] - least) / whole if whole > 0 else 1.0
            above = best - floor
            if np.isnan(floor):
                table[i, 1] = table[i, 2]
            elif above > 0:
                table[i, 1] = max(scores[row, at] - floor, 0.0) / above
    return table
