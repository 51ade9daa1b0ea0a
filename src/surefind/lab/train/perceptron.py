"""A multilayer perceptron that predicts a number from 0 to 1, trained as in the agentic-knowledge-base study (4.2).

    h_1 = drop(ReLU(W_1 x + b_1))    h_2 = drop(ReLU(W_2 h_1 + b_2))    y = sigmoid(W_3 h_2 + b_3)        MSE loss

AdamW (Loshchilov and Hutter 2019), at most 100 epochs. Training ends when the validation loss has not improved for 10
epochs, and the weights of the best epoch are kept. Weights start as in PyTorch's `Linear`: uniform within ±1 / √inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.base.types import FloatArray, Floats

EPOCHS, PATIENCE = 100, 10
_BETAS, _EPSILON = (0.9, 0.999), 1e-8
Pair = tuple[NDArray[np.floating], Floats]
"""Features and targets."""
Layers = tuple[tuple[FloatArray, FloatArray], ...]
"""(matrix, bias) of each layer; all are views of one array."""


@dataclass(frozen=True)
class Setting:
    hidden: tuple[int, ...]
    rate: float
    batch: int
    dropout: float
    decay: float


@dataclass(frozen=True, eq=False)
class Perceptron:
    layers: Layers
    losses: tuple[tuple[float, float], ...]
    """Training and validation loss of each epoch. The training loss is that of the batches, with dropout."""

    def predict(self, x: NDArray[np.floating]) -> Floats:
        return forward(self.layers, x)


def forward(layers: Sequence[tuple[NDArray[np.floating], NDArray[np.floating]]], x: NDArray[np.floating]) -> Floats:
    """The prediction for each row, without dropout."""
    at = np.asarray(x)
    for matrix, bias in layers[:-1]:
        at = np.maximum(at @ matrix + bias, 0.0)
    matrix, bias = layers[-1]
    return _sigmoid((at @ matrix + bias)[:, 0].astype(np.float64))


def fit(train: Pair, validation: Pair, setting: Setting, seed: int) -> Perceptron:
    rng = np.random.default_rng(seed)
    x, y = train[0].astype(np.float32), train[1].astype(np.float32)
    values, layers = _start((x.shape[1], *setting.hidden, 1), rng)
    optimizer = _AdamW(values, setting)
    best, kept, waited = np.inf, values.copy(), 0
    losses: list[tuple[float, float]] = []
    for _ in range(EPOCHS):
        order = rng.permutation(len(x))
        parts = [order[i : i + setting.batch] for i in range(0, len(order), setting.batch)]
        seen = sum(_step(x[part], y[part], layers, optimizer, setting.dropout, rng) * len(part) for part in parts)
        loss = float(((forward(layers, validation[0]) - validation[1]) ** 2).mean())
        losses.append((float(seen) / len(x), loss))
        waited = 0 if loss < best else waited + 1
        if loss < best:
            best, kept = loss, values.copy()
        if waited >= PATIENCE:
            break
    values[:] = kept
    return Perceptron(layers, tuple(losses))


class _AdamW:
    """Adam with weight decay that does not pass through the moments."""

    def __init__(self, values: FloatArray, setting: Setting) -> None:
        self._values, self._setting = values, setting
        self.gradient = np.zeros_like(values)
        self._first, self._second, self._steps = np.zeros_like(values), np.zeros_like(values), 0

    def step(self) -> None:
        (one, two), rate = _BETAS, self._setting.rate
        self._steps += 1
        self._first += (1 - one) * (self.gradient - self._first)
        self._second += (1 - two) * (self.gradient**2 - self._second)
        size = np.sqrt(self._second / (1 - two**self._steps)) + _EPSILON
        self._values *= 1 - rate * self._setting.decay
        self._values -= rate / (1 - one**self._steps) * self._first / size


def _start(sizes: Sequence[int], rng: np.random.Generator) -> tuple[FloatArray, Layers]:
    """All parameters in one array, and the layers as views of it."""
    bounds = [np.full((a + 1) * b, a**-0.5) for a, b in pairwise(sizes)]
    limit = np.concatenate(bounds)
    values = (rng.uniform(-1, 1, len(limit)) * limit).astype(np.float32)
    return values, _views(values, sizes)


def _views(values: FloatArray, sizes: Sequence[int]) -> Layers:
    layers, at = [], 0
    for a, b in pairwise(sizes):
        layers.append((values[at : at + a * b].reshape(a, b), values[at + a * b : at + (a + 1) * b]))
        at += (a + 1) * b
    return tuple(layers)


def _step(
    x: FloatArray, y: FloatArray, layers: Layers, optimizer: _AdamW, dropout: float, rng: np.random.Generator
) -> float:
    """One step on a batch. Returns its loss."""
    inputs, kept = [x], []
    for matrix, bias in layers[:-1]:
        hidden = np.maximum(inputs[-1] @ matrix + bias, 0.0)
        mask = (rng.random(hidden.shape, dtype=np.float32) >= dropout) / np.float32(1 - dropout)
        kept.append(mask * (hidden > 0))
        inputs.append(hidden * mask)
    matrix, bias = layers[-1]
    predicted = _sigmoid((inputs[-1] @ matrix + bias)[:, 0])
    error = predicted - y
    back = (2 / len(y) * error * predicted * (1 - predicted))[:, None]
    sizes = [x.shape[1], *(len(bias) for _, bias in layers)]
    for i, (to_matrix, to_bias) in reversed(list(enumerate(_views(optimizer.gradient, sizes)))):
        to_matrix[:], to_bias[:] = inputs[i].T @ back, back.sum(axis=0)
        if i:
            back = (back @ layers[i][0].T) * kept[i - 1]
    optimizer.step()
    return float((error**2).mean())


def _sigmoid(x: NDArray[Any]) -> NDArray[Any]:
    """In the precision of its argument."""
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -60, 60))))
