"""Clusters: groups of questions that are not independent, such as the questions about one document.

If a configuration finds a document badly, it does so for all questions about it. Ten questions about one document are
therefore less evidence than ten questions about ten documents. Intervals resample whole clusters, and the permutation
test flips whole clusters (Cameron, Gelbach and Miller 2008 describe the bootstrap of clusters). With fewer than
`MIN_CLUSTERS` clusters there is too little to resample: with one cluster, every interval would have a width of zero.
Then each question counts on its own, and the results say nothing about documents other than these.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from surefind.base.types import Floats
from surefind.lab.exam.clusters import MIN_CLUSTERS

Clusters = NDArray[np.int64]
"""The number of each question's cluster."""


def units(clusters: Clusters | None, n: int) -> Clusters:
    """The number of what each of n questions is resampled with: its cluster, or itself if there are too few."""
    if clusters is not None:
        numbers, which = np.unique(clusters, return_inverse=True)
        if MIN_CLUSTERS <= len(numbers) < n:
            return which
    return np.arange(n)


def grouped(values: Floats, clusters: Clusters | None) -> tuple[Floats, Floats]:
    """Sums the rows of `values` within each cluster; also returns how many rows each cluster has."""
    which = units(clusters, len(values))
    sizes = np.bincount(which)
    if len(sizes) == len(values):
        return values, np.ones(len(values))
    sums = np.zeros((len(sizes), values.shape[1]))
    np.add.at(sums, which, values)
    return sums, sizes.astype(np.float64)
