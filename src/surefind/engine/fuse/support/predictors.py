"""Trained fusion models at search time: they predict a weight for each query and ranking.

A model is a few arrays: `surefind[learn]` is needed to train one, not to search with it. It is saved as a folder with
`manifest.json`, which says what it was trained on, and the model's own files.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from surefind.base.disk.arrays import read_archive
from surefind.base.types import FloatArray, Floats, Rankings
from surefind.engine.fuse.support.features import Rarity, alpha_at, of_scores, of_words, rich
from surefind.engine.fuse.support.join import from_floor, join, min_max
from surefind.engine.fuse.support.trees import Trees

Norm = Literal["floor", "minmax"]
Embed = Callable[[Sequence[str]], FloatArray]
SOURCE = "learned"
_ARRAYS = "model.npz"
_TREES = "trees.npz"
_CHOICE = "choice.json"
_RARITY = "rarity.json"


class Weigher(ABC):
    """A model that predicts weights and fuses by the weighted sum of scaled scores."""

    kind: ClassVar[str]
    norm: Norm

    @abstractmethod
    def weights(self, texts: Sequence[str], rankings: Sequence[Rankings], embed: Embed) -> Floats:
        """The weights, (queries, rankings); each row sums to 1."""

    @abstractmethod
    def save(self, folder: Path) -> None: ...

    def fuse(self, texts: Sequence[str], rankings: Sequence[Rankings], embed: Embed, k: int) -> Rankings:
        return blend(rankings, self.weights(texts, rankings, embed), self.norm, k, SOURCE)


def blend(rankings: Sequence[Rankings], weights: Floats, norm: Norm, k: int, source: str) -> Rankings:
    """Fuses by a weighted sum of scaled scores; `weights` has one row per query, or one row for all."""
    scale = from_floor if norm == "floor" else min_max
    gains = [weights[:, i : i + 1] * scale(ranking) for i, ranking in enumerate(rankings)]
    return join(rankings, gains, k, source)


def _two(alpha: Floats, rankings: Sequence[Rankings]) -> Floats:
    """The weights of two rankings: α for one (`alpha_at`), 1 - α for the other."""
    alpha = np.clip(alpha, 0.0, 1.0)
    pair = [1 - alpha, alpha] if alpha_at([r.signal for r in rankings]) == 1 else [alpha, 1 - alpha]
    return np.stack(pair, axis=1)


# ---------------------------------------------------------------- α from features


@dataclass(frozen=True, eq=False)
class Ridge(Weigher):
    """α = w·x + b over the four features of the query's words."""

    kind: ClassVar[str] = "ridge"
    norm: Norm = field(default="floor", init=False)
    coefficients: Floats
    bias: float

    def weights(self, texts: Sequence[str], rankings: Sequence[Rankings], embed: Embed) -> Floats:
        return _two(of_words(texts) @ self.coefficients + self.bias, rankings)

    def save(self, folder: Path) -> None:
        np.savez(folder / _ARRAYS, coefficients=self.coefficients, bias=np.array(self.bias))

    @classmethod
    def load(cls, folder: Path) -> Ridge:
        data = read_archive(folder / _ARRAYS)
        return cls(data["coefficients"], float(data["bias"]))


@dataclass(frozen=True, eq=False)
class MLP(Weigher):
    """α from the query's vector: two hidden layers with ReLU, and a sigmoid."""

    kind: ClassVar[str] = "mlp"
    norm: Norm = field(default="floor", init=False)
    layers: tuple[tuple[Floats, Floats], ...]
    """(matrix, bias) of each layer."""

    def weights(self, texts: Sequence[str], rankings: Sequence[Rankings], embed: Embed) -> Floats:
        at = np.asarray(embed(texts), dtype=np.float64)
        for matrix, bias in self.layers[:-1]:
            at = np.maximum(at @ matrix + bias, 0.0)
        matrix, bias = self.layers[-1]
        return _two(1 / (1 + np.exp(-np.clip((at @ matrix + bias)[:, 0], -60, 60))), rankings)

    def save(self, folder: Path) -> None:
        arrays = {f"w{i}": matrix for i, (matrix, _) in enumerate(self.layers)}
        arrays |= {f"b{i}": bias for i, (_, bias) in enumerate(self.layers)}
        np.savez(folder / _ARRAYS, **cast(Any, arrays))

    @classmethod
    def load(cls, folder: Path) -> MLP:
        data = read_archive(folder / _ARRAYS)
        return cls(tuple((data[f"w{i}"], data[f"b{i}"]) for i in range(len(data) // 2)))


@dataclass(frozen=True, eq=False)
class XGBoost(Weigher):
    """α from the 25 features by boosted trees."""

    kind: ClassVar[str] = "xgboost"
    norm: Norm = field(default="floor", init=False)
    trees: Trees

    def weights(self, texts: Sequence[str], rankings: Sequence[Rankings], embed: Embed) -> Floats:
        return _two(self.trees.predict(of_scores(texts, rankings)), rankings)

    def save(self, folder: Path) -> None:
        self.trees.save(folder / _TREES)

    @classmethod
    def load(cls, folder: Path) -> XGBoost:
        return cls(Trees.load(folder / _TREES))


# ---------------------------------------------------------------- weights by predicted gain


@dataclass(frozen=True, eq=False)
class Chooser(Weigher):
    """`ndcg`: chooses the candidate weighting with the greatest predicted gain over the best static one.

    gain(q, w) = trees(rich(q), w)            trained on  measure(q, w) - measure(q, static)
    w(q) = argmax_w  gain(q, w) - penalty · ½‖w - static‖₁        if that is above the threshold, else static
    """

    kind: ClassVar[str] = "ndcg"
    norm: Norm
    candidates: Floats
    """(candidates, rankings): points of the simplex."""
    static: int
    penalty: float
    threshold: float
    rarity: Rarity
    trees: Trees

    def weights(self, texts: Sequence[str], rankings: Sequence[Rankings], embed: Embed) -> Floats:
        if not np.isfinite(self.threshold) or not texts:
            return np.repeat(self.candidates[self.static : self.static + 1], len(texts), axis=0)
        rows = with_candidates(rich(texts, rankings, self.rarity), self.candidates)
        gains = self.trees.predict(rows).reshape(len(texts), len(self.candidates))
        return self.candidates[choose(gains, self.candidates, self.static, self.penalty, self.threshold)]

    def save(self, folder: Path) -> None:
        self.trees.save(folder / _TREES)
        self.rarity.save(folder / _RARITY)
        about = {
            "norm": self.norm,
            "candidates": self.candidates.tolist(),
            "static": self.static,
            "penalty": self.penalty,
            "threshold": self.threshold if np.isfinite(self.threshold) else None,
        }
        (folder / _CHOICE).write_text(json.dumps(about), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Chooser:
        about = json.loads((folder / _CHOICE).read_text(encoding="utf-8"))
        threshold = float("inf") if about["threshold"] is None else about["threshold"]
        candidates = np.array(about["candidates"], dtype=np.float64)
        rarity = Rarity.load(folder / _RARITY)
        return cls(
            about["norm"], candidates, about["static"], about["penalty"], threshold, rarity, Trees.load(folder / _TREES)
        )


def with_candidates(features: Floats, candidates: Floats) -> Floats:
    """Combines every query's features with every candidate's weights (without the last, which the others determine)."""
    left = np.repeat(features, len(candidates), axis=0)
    return np.concatenate([left, np.tile(candidates[:, :-1], (len(features), 1))], axis=1)


def choose(gains: NDArray[Any], candidates: Floats, static: int, penalty: float, threshold: float) -> NDArray[np.int64]:
    """The number of the candidate chosen for each query."""
    distance = np.abs(candidates - candidates[static]).sum(axis=1) / 2
    net = np.asarray(gains, dtype=np.float64) - penalty * distance
    net[:, static] = threshold  # another candidate must promise more than the threshold
    best = net.argmax(axis=1)
    return np.where(net[np.arange(len(net)), best] > threshold, best, static).astype(np.int64)
