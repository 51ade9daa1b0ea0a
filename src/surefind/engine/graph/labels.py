"""Chooses how an entity is displayed: by its most frequent spelling in the passages that the caller may read."""

from __future__ import annotations

import numpy as np

from surefind.engine.graph.derive import Graph
from surefind.engine.graph.facts import HEADING, MENTION, TITLE, TYPE


def labels(graph: Graph) -> list[str]:
    """The label of each entity; of equally frequent spellings, the first in alphabetical order."""
    rows, _ = graph.facts.of(graph.allow)
    named = rows[np.isin(rows[:, 0], (MENTION, HEADING, TITLE)), 1]
    entity = graph.canon[graph.facts.key_numbers[named]]
    counts = np.bincount(named, minlength=len(graph.facts.strings))
    order = np.lexsort((named, -counts[named], entity))
    names = list(graph.keys)
    last = -1
    for i, string in zip(entity[order].tolist(), named[order].tolist(), strict=True):
        if i >= 0 and i != last:
            names[i] = graph.facts.strings[string]
        last = i
    return names


def types(graph: Graph) -> dict[int, str]:
    """Entity -> its most frequent type, for entities that have one."""
    rows, _ = graph.facts.of(graph.allow)
    typed = rows[rows[:, 0] == TYPE]
    pairs, counts = np.unique(
        np.stack([graph.canon[graph.facts.key_numbers[typed[:, 1]]], typed[:, 2]], axis=1), axis=0, return_counts=True
    )
    order = np.argsort(counts, kind="stable").tolist()
    return {int(pairs[i, 0]): graph.facts.strings[pairs[i, 1]] for i in order if pairs[i, 0] >= 0}
