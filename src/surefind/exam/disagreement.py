"""How much configurations disagree on a question: which questions are worth a person's time.

Rank r of the first K has the discount w(r) = 1 / log2(1 + r), and a passage below K, or not found, has w = 0. With
w_c(d) the discount that configuration c gives passage d, and m configurations:

    D = mean over pairs (a, b) of  Σ_d (w_a(d) - w_b(d))² / 2 Σ_r w(r)²

D is 0 if all lists are equal, and 1 if no two of them share a passage. It is proportional to the expected squared
difference of two configurations' DCG@K if each passage is relevant with the same probability p, independently:
E (DCG_a - DCG_b)² = p (1 - p) Σ_d (w_a(d) - w_b(d))² for full lists. So questions with a high D are those whose answers
are expected to separate the configurations most. A question on which all lists are equal separates nothing.

The pairs need no loop: with S_d = Σ_c w_c(d) and Q_d = Σ_c w_c(d)², the sum over pairs is Σ_d (m Q_d - S_d²).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surefind.types import PAD, Floats, Rankings

K = 10


def disagreement(rankings: Sequence[Rankings], k: int = K) -> Floats:
    """Returns D of each query, from the rankings of at least two configurations over the same queries."""
    m = len(rankings)
    if m < 2:
        raise ValueError(f"Disagreement needs at least 2 rankings, not {m}.")
    discounts = 1.0 / np.log2(np.arange(k) + 2.0)
    disagreements = np.zeros(len(rankings[0]))
    for query in range(len(disagreements)):
        tops = [ranking.ids[query, :k] for ranking in rankings]
        ids = np.concatenate(tops)
        weights = np.concatenate([discounts[: len(top)] for top in tops])
        kept = ids != PAD
        _, passage = np.unique(ids[kept], return_inverse=True)
        sums = np.bincount(passage, weights[kept])
        squares = np.bincount(passage, weights[kept] ** 2)
        disagreements[query] = np.sum(m * squares - sums**2)
    values: Floats = disagreements / (m * (m - 1) / 2) / (2 * np.sum(discounts**2))
    return np.clip(values, 0.0, None)  # a rounding error of equal lists may be negative
