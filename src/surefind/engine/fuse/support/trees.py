"""Boosted trees as flat arrays, evaluated by a compiled loop: a prediction takes microseconds and needs no xgboost."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from surefind.base.disk.arrays import read_archive
from surefind.base.types import Floats

Ints = NDArray[np.int32]
Singles = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Trees:
    roots: Ints
    """The root node of each tree."""
    feature: Ints
    """The feature that each node compares; -1 for a leaf."""
    value: Singles
    """The threshold of each node (below it, go left), or the value of a leaf."""
    left: Ints
    right: Ints
    base: float

    @classmethod
    def of(cls, booster: Any) -> Trees:
        """Converts an xgboost booster with numeric features and without missing values."""
        learner = json.loads(bytes(booster.save_raw("json")))["learner"]
        trees = learner["gradient_booster"]["model"]["trees"]
        sizes = [len(tree["left_children"]) for tree in trees]
        roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]) if sizes else np.zeros(0)
        left, right, feature, value = [], [], [], []
        for root, tree in zip(roots.astype(int).tolist(), trees, strict=True):
            leaf = np.array(tree["left_children"]) < 0
            left.append(np.where(leaf, -1, np.array(tree["left_children"]) + root))
            right.append(np.where(leaf, -1, np.array(tree["right_children"]) + root))
            feature.append(np.where(leaf, -1, np.array(tree["split_indices"])))
            value.append(np.array(tree["split_conditions"]))
        base = float(learner["learner_model_param"]["base_score"].strip("[]"))
        return cls(
            roots.astype(np.int32), _ints(feature), _join(value).astype(np.float32), _ints(left), _ints(right), base
        )

    @classmethod
    def none(cls) -> Trees:
        """A forest without trees, which predicts 0."""
        nodes = np.zeros(0, np.int32)
        return cls(nodes, nodes, np.zeros(0, np.float32), nodes, nodes, 0.0)

    def predict(self, rows: Floats) -> Floats:
        # xgboost compares in single precision.
        return _walk(
            np.ascontiguousarray(rows, dtype=np.float32),
            self.roots, self.feature, self.value, self.left, self.right, self.base,
        )  # fmt: skip

    def save(self, path: Path) -> None:
        np.savez(
            path, roots=self.roots, feature=self.feature, value=self.value, left=self.left, right=self.right,
            base=np.array(self.base),
        )  # fmt: skip

    @classmethod
    def load(cls, path: Path) -> Trees:
        data = read_archive(path)
        roots, feature, value, left, right = (data[n] for n in ("roots", "feature", "value", "left", "right"))
        return cls(roots, feature, value, left, right, float(data["base"]))


def _join(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0)


def _ints(parts: list[NDArray[Any]]) -> Ints:
    return _join(parts).astype(np.int32)


@njit(cache=True, nogil=True)
def _walk(rows: Singles, roots: Ints, feature: Ints, value: Singles, left: Ints, right: Ints, base: float) -> Floats:
    out = np.full(len(rows), base, np.float64)
    for root in roots:  # tree by tree, so that its nodes stay in the CPU cache for all rows
        for i in range(len(rows)):
            at = root
            while feature[at] >= 0:
                at = left[at] if rows[i, feature[at]] < value[at] else right[at]
            out[i] += value[at]
    return out
