"""What a community is about, in words taken from it: its main entities, and how its most central passages begin.

A language model may write better ones (`surefind.graph.written`); these cost nothing and can say nothing that is not in
the text.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefind.graph.communities import Communities
from surefind.graph.derive import Graph
from surefind.graph.facts import LEAD
from surefind.graph.labels import labels
from surefind.types import IntArray

ENTITIES = 10
LEADS = 3


@dataclass(frozen=True, eq=False)
class Summary:
    entities: tuple[int, ...]
    """The main ones, first those that hold it together."""
    chunks: tuple[int, ...]
    """The most central passages."""
    text: str


@dataclass(frozen=True, eq=False)
class Outline:
    """What there is to say about a community, the most central first."""

    entities: tuple[int, ...]
    chunks: tuple[int, ...]
    names: tuple[str, ...]
    """Of the entities."""
    leads: tuple[str, ...]
    """How the chunks begin."""


def summarise(graph: Graph, found: Communities) -> list[Summary]:
    """Of every small community, in order."""
    return [
        Summary(outline.entities, outline.chunks, " ".join([", ".join(outline.names) + ".", *outline.leads]))
        for outline in outlines(graph, found, ENTITIES, LEADS)
    ]


def outlines(graph: Graph, found: Communities, entities: int, chunks: int) -> list[Outline]:
    """Of every small community, in order, with so many entities and chunks at most."""
    named, leads = labels(graph), _leads(graph)
    return [
        Outline(tuple(mine), tuple(own), tuple(named[e] for e in mine), tuple(leads[c] for c in own if c in leads))
        for mine, own in zip(*_central(graph, found, entities, chunks), strict=True)
    ]


def _central(graph: Graph, found: Communities, entities: int, chunks: int) -> tuple[list[list[int]], list[list[int]]]:
    """Per community its entities by the weight of their edges to its own chunks, and its chunks likewise."""
    chunk = np.repeat(np.arange(graph.chunks), np.diff(graph.starts))
    entity = graph.entities
    within = (found.small[chunk] == found.small[graph.chunks + entity]) & (found.small[chunk] >= 0)
    weight = np.log(1 + graph.chunks_there / np.maximum(1, graph.degrees[entity[within]]))
    of_entity = np.bincount(entity[within], weight, minlength=len(graph.keys)).astype(np.float64)
    of_chunk = np.bincount(chunk[within], weight, minlength=graph.chunks).astype(np.float64)
    small = found.small
    return (
        _first(small[graph.chunks :], of_entity, len(found), entities),
        _first(small[: graph.chunks], of_chunk, len(found), chunks),
    )


def _first(community: IntArray, weight: NDArray[np.float64], count: int, most: int) -> list[list[int]]:
    """The heaviest members of each community."""
    found: list[list[int]] = [[] for _ in range(count)]
    for node in np.lexsort((np.arange(len(community)), -weight)).tolist():
        mine = int(community[node])
        if mine >= 0 and len(found[mine]) < most:
            found[mine].append(node)
    return found


def _leads(graph: Graph) -> dict[int, str]:
    rows, chunk = graph.facts.of(graph.allow)
    lead = rows[:, 0] == LEAD
    strings = graph.facts.strings
    return {int(c): strings[i] for c, i in zip(chunk[lead].tolist(), rows[lead, 1].tolist(), strict=True)}
