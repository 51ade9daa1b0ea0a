"""LambdaMART over candidates, as it is used: boosted trees that correct the best static fusion.

    score(q, d) = scale · static(d) + trees(candidate(q, d), rich(q))        for the `TOP` best of the static fusion

The trees see what each ranking says of a candidate (score, both scalings, rank) beside the features of the query. They
start from the static fusion, so that no trees at all *are* the static fusion, and few data mean little change. What
stands below the `TOP` stays where it is. Burges, From RankNet to LambdaRank to LambdaMART, 2010.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from surefind.fuse._features import Rarity, rich, rich_names
from surefind.fuse._join import Floats, present
from surefind.fuse._predictors import SOURCE, Embed, Norm, blend
from surefind.fuse._trees import Trees
from surefind.types import PAD, Rankings

TOP = 30
SCALE = 5.0
"""How much the static fusion counts beside the trees: its scores go from 0 to 1."""
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
        before = blend(rankings, self.static[None], self.norm, max(k, TOP), SOURCE)
        if not len(self.trees.roots) or not texts:
            return first(before, k)
        rows = candidates(texts, rankings, before, self.rarity)
        there = present(before)[:, :TOP]
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
    """The head of a ranking in the order of its scores and what the trees add; the rest stays below it."""
    width = gains.shape[1]
    there = present(before)[:, :width]
    scores = np.where(there, SCALE * before.scores[:, :width] + gains, -np.inf)
    order = np.argsort(-scores, axis=1, kind="stable")
    head, scores = np.take_along_axis(before.ordinals[:, :width], order, 1), np.take_along_axis(scores, order, 1)
    tail = SCALE * before.scores[:, width:].astype(np.float64)
    if tail.shape[1]:
        least = np.min(scores, axis=1, keepdims=True, where=scores > -np.inf, initial=np.inf)
        with np.errstate(invalid="ignore"):
            tail = np.where(np.isneginf(tail), tail, tail + np.minimum(least - tail[:, :1], 0.0))
    return Rankings(
        np.concatenate([head, before.ordinals[:, width:]], axis=1),
        np.concatenate([scores, tail], axis=1).astype(np.float32),
        before.source,
        before.signal,
    )


def first(ranking: Rankings, k: int) -> Rankings:
    return Rankings(ranking.ordinals[:, :k], ranking.scores[:, :k], ranking.source, ranking.signal)


# ---------------------------------------------------------------- features


def candidates(texts: Sequence[str], rankings: Sequence[Rankings], before: Rankings, rarity: Rarity) -> Floats:
    """A row for each of the `TOP` candidates that are there, query by query."""
    there = present(before)[:, :TOP]
    query, place = np.nonzero(there)
    wanted = before.ordinals[query, place]
    columns = [before.scores[query, place], np.log(place + 1.0)]
    for ranking in rankings:
        columns += _said(ranking, query, wanted)
    return np.concatenate([np.stack(columns, axis=1), rich(texts, rankings, rarity)[query]], axis=1)


def candidate_names(sources: Sequence[str]) -> list[str]:
    labels = [name if sources.count(name) == 1 else f"{name}:{i}" for i, name in enumerate(sources, 1)]
    return [*_STATIC, *(f"{label}_{what}" for label in labels for what in _SAID), *rich_names(sources)]


def _said(ranking: Rankings, query: NDArray[np.int64], wanted: NDArray[np.int32]) -> list[Floats]:
    """Of each candidate its score, both scalings and the logarithm of the rank; one that is not in the ranking has the
    least of each."""
    width = ranking.ordinals.shape[1]
    if not width:
        return [np.zeros(len(query)) for _ in _SAID]
    # One search for all queries: an ordinal and its query in one number; padding, seen as unsigned, comes last.
    places = ((np.arange(len(ranking), dtype=np.int64)[:, None] << 32) + ranking.ordinals.view(np.uint32)).ravel()
    keys = (query << 32) + wanted
    order = np.argsort(places, kind="stable")
    at = order[np.minimum(np.searchsorted(places, keys, sorter=order), len(places) - 1)]
    found = places[at] == keys
    count = np.count_nonzero(ranking.ordinals != PAD, axis=1)
    last = np.maximum(count, 1) - 1
    best = np.where(count > 0, ranking.scores[:, 0], 0.0)[query]
    least = np.where(count > 0, ranking.scores[np.arange(len(count)), last], 0.0)[query]
    scores = np.where(found, ranking.scores.ravel()[at], least)
    by_range = _share(scores - least, best - least, 1.0)
    by_floor = _share(scores - ranking.floor, best - ranking.floor, 0.0) if np.isfinite(ranking.floor) else by_range
    ranks = np.log(np.where(found, at % width + 1.0, width + 1.0))
    return [scores, by_floor * found, by_range * found, ranks]


def _share(part: Floats, whole: Floats, otherwise: float) -> Floats:
    """As `from_floor` and `min_max` scale, for the candidates alone; `otherwise` where there is nothing to scale by."""
    usable = whole > 0
    return np.where(usable, np.maximum(part, 0.0) / np.where(usable, whole, 1.0), otherwise)
