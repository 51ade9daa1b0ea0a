"""Summarises a community with its own words: its main entities, and the beginnings of its most central passages.

A language model may write better summaries (`surefind.engine.graph.written`). These cost nothing and contain nothing
that is not in the text.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefind.base.types import IntArray
from surefind.engine.graph.communities import Communities
from surefind.engine.graph.derive import Graph
from surefind.engine.graph.facts import LEAD
from surefind.engine.graph.labels import labels

ENTITIES = 10
"""Most entities in a summary."""
LEADS = 3
"""Most beginnings of passages in a summary."""


@dataclass(frozen=True, eq=False)
class Summary:
    entities: tuple[int, ...]
    """The main entities, the most central first."""
    chunks: tuple[int, ...]
    """The most central passages."""
    text: str


@dataclass(frozen=True, eq=False)
class Outline:
    """The material for a summary of a community, the most central first."""

    entities: tuple[int, ...]
    chunks: tuple[int, ...]
    names: tuple[str, ...]
    """The names of the entities."""
    leads: tuple[str, ...]
    """The beginnings of the chunks."""


def summarise(graph: Graph, partition: Communities) -> list[Summary]:
    """The summary of every small community, in order."""
    return [
        Summary(outline.entities, outline.chunks, " ".join([", ".join(outline.names) + ".", *outline.leads]))
        for outline in outlines(graph, partition, ENTITIES, LEADS)
    ]


def outlines(graph: Graph, partition: Communities, entities: int, chunks: int) -> list[Outline]:
    """The outline of every small community, in order, with at most this many entities and chunks."""
    named, leads = labels(graph), _leads(graph)
    return [
        Outline(tuple(main), tuple(own), tuple(named[e] for e in main), tuple(leads[c] for c in own if c in leads))
        for main, own in zip(*_central(graph, partition, entities, chunks), strict=True)
    ]


def _central(
    graph: Graph, partition: Communities, entities: int, chunks: int
) -> tuple[list[list[int]], list[list[int]]]:
    """The most central entities and chunks of each community, by the weight of their edges within the community."""
    chunk = np.repeat(np.arange(graph.chunks), np.diff(graph.starts))
    entity = graph.entities
    within = (partition.small[chunk] == partition.small[graph.chunks + entity]) & (partition.small[chunk] >= 0)
    weight = np.log(1 + graph.chunks_there / np.maximum(1, graph.degrees[entity[within]]))
    of_entity = np.bincount(entity[within], weight, minlength=len(graph.keys)).astype(np.float64)
    of_chunk = np.bincount(chunk[within], weight, minlength=graph.chunks).astype(np.float64)
    small = partition.small
    return (
        _first(small[graph.chunks :], of_entity, len(partition), entities),
        _first(small[: graph.chunks], of_chunk, len(partition), chunks),
    )


def _first(community: IntArray, weight: NDArray[np.float64], count: int, most: int) -> list[list[int]]:
    """The heaviest members of each community."""
    firsts: list[list[int]] = [[] for _ in range(count)]
    for node in np.lexsort((np.arange(len(community)), -weight)).tolist():
        home = int(community[node])
        if home >= 0 and len(firsts[home]) < most:
            firsts[home].append(node)
    return firsts


def _leads(graph: Graph) -> dict[int, str]:
    rows, chunk = graph.facts.of(graph.allow)
    lead = rows[:, 0] == LEAD
    strings = graph.facts.strings
    return {int(c): strings[i] for c, i in zip(chunk[lead].tolist(), rows[lead, 1].tolist(), strict=True)}
