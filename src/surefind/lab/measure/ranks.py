"""Rank measures over gains, for a whole exam at once. The names are those of ir_measures: `nDCG@10`.

    nDCG@k     Σ_{r<=k} g_r / log2(r+1), divided by the same sum for the ideal order (Järvelin and Kekäläinen 2002)
    RR@k       1 / rank of the first relevant item within k, else 0
    AP@k       Σ_{r<=k, relevant} precision at r, divided by the number of relevant items
    R@k        relevant items within k / relevant items
    P@k        relevant items within k / k
    Success@k  1 if any relevant item is within k
    All@k      1 if every relevant item is within k, for questions that need several passages

Gains are the grades themselves, as in trec_eval. A query without relevant items scores 0.
"""

from __future__ import annotations

import numpy as np

from surefind.base.types import Floats
from surefind.lab.measure.gains import Gains


def _cut(table: Floats, k: int) -> Floats:
    """Cuts or pads a table to exactly k columns."""
    return np.pad(table[:, :k], ((0, 0), (0, max(0, k - table.shape[1]))))


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def ndcg(judged: Gains, k: int) -> Floats:
    discount = 1 / np.log2(np.arange(2, k + 2))
    # One chunk may cover two gold spans, so the gain can exceed that of the ideal order of single items; 1 is the most.
    return np.minimum(_ratio(_cut(judged.gains, k) @ discount, _cut(judged.ideal, k) @ discount), 1.0)


def reciprocal_rank(judged: Gains, k: int) -> Floats:
    hits = _cut(judged.gains, k) > 0
    return np.asarray(np.where(hits.any(axis=1), 1 / (hits.argmax(axis=1) + 1), 0.0))


def average_precision(judged: Gains, k: int) -> Floats:
    hits = (_cut(judged.gains, k) > 0).astype(np.float64)
    precision = np.cumsum(hits, axis=1) / np.arange(1, k + 1)
    return _ratio(np.asarray((precision * hits).sum(axis=1)), judged.relevant)


def recall(judged: Gains, k: int) -> Floats:
    return _ratio(np.asarray(_cut(judged.found, k).sum(axis=1)), judged.relevant)


def precision(judged: Gains, k: int) -> Floats:
    return np.asarray((_cut(judged.gains, k) > 0).sum(axis=1) / k)


def success(judged: Gains, k: int) -> Floats:
    return np.asarray((_cut(judged.gains, k) > 0).any(axis=1), dtype=np.float64)


def all_found(judged: Gains, k: int) -> Floats:
    return np.asarray(recall(judged, k) >= 1, dtype=np.float64)


MEASURES = {
    "nDCG": ndcg,
    "RR": reciprocal_rank,
    "AP": average_precision,
    "R": recall,
    "P": precision,
    "Success": success,
    "All": all_found,
}
