"""nDCG@10 per question, bootstrap intervals and min-max scaling. Needs neither an accelerator nor surefind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def ndcg(order: np.ndarray, gold: Sequence[dict[int, float]], k: int = 10) -> np.ndarray:
    """Computes nDCG@k for each question; `order` has one ranking of passage numbers per row."""
    discount = 1 / np.log2(np.arange(2, k + 2))
    result = []
    for row, grades in zip(order, gold, strict=True):
        gains = np.array([grades.get(int(o), 0.0) for o in row[:k]])
        ideal = np.sort(np.fromiter(grades.values(), float))[::-1][:k]
        result.append((gains * discount[: len(gains)]).sum() / (ideal * discount[: len(ideal)]).sum())
    return np.array(result)


def interval(difference: np.ndarray, seed: int = 42) -> tuple[float, float, float]:
    """Mean and 95% bootstrap interval, in points."""
    random = np.random.default_rng(seed)
    means = difference[random.integers(0, len(difference), (2000, len(difference)))].mean(1) * 100
    return difference.mean() * 100, *np.percentile(means, [2.5, 97.5])


def minmax(scores: np.ndarray, there: np.ndarray, least: float = 1e-9) -> np.ndarray:
    """Scales each row so that its lowest score is 0 and its highest is 1; a range below `least` counts as `least`."""
    low = np.where(there, scores, np.inf).min(1, keepdims=True)
    high = np.where(there, scores, -np.inf).max(1, keepdims=True)
    return (scores - low) / np.maximum(high - low, least)


def macro(differences: Sequence[np.ndarray], seed: int = 42) -> tuple[float, float, float]:
    """The mean of the sets' means, with a 95% bootstrap interval over questions, in points."""
    random = np.random.default_rng(seed)
    means = [one[random.integers(0, len(one), (2000, len(one)))].mean(1) for one in differences]
    low, high = np.percentile(np.mean(means, axis=0) * 100, [2.5, 97.5])
    return float(np.mean([one.mean() for one in differences])) * 100, low, high
