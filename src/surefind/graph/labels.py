"""How an entity is written: the way most of the passages write it that the caller may read."""

from __future__ import annotations

import numpy as np

from surefind.graph.derive import Graph
from surefind.graph.facts import HEADING, MENTION, TITLE, TYPE


def labels(graph: Graph) -> list[str]:
    """Per entity; of ways as frequent the first in the alphabet."""
    rows, _ = graph.facts.of(graph.allow)
    named = rows[np.isin(rows[:, 0], (MENTION, HEADING, TITLE)), 1]
    entity = graph.canon[graph.facts.key_numbers[named]]
    counts = np.bincount(named, minlength=len(graph.facts.strings))
    order = np.lexsort((named, -counts[named], entity))
    found = list(graph.keys)
    last = -1
    for i, string in zip(entity[order].tolist(), named[order].tolist(), strict=True):
        if i >= 0 and i != last:
            found[i] = graph.facts.strings[string]
        last = i
    return found


def types(graph: Graph) -> dict[int, str]:
    """Entity -> what most passages say it is, for those of which any says so."""
    rows, _ = graph.facts.of(graph.allow)
    told = rows[rows[:, 0] == TYPE]
    pairs, counts = np.unique(
        np.stack([graph.canon[graph.facts.key_numbers[told[:, 1]]], told[:, 2]], axis=1), axis=0, return_counts=True
    )
    order = np.argsort(counts, kind="stable").tolist()
    return {int(pairs[i, 0]): graph.facts.strings[pairs[i, 1]] for i in order if pairs[i, 0] >= 0}
