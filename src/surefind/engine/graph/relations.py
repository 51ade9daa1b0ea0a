"""Finds related entities: entities that occur in the same sentence more often than by chance.

    NPMI(x, y) = ln(p(x, y) / (p(x)·p(y))) / -ln p(x, y)        weight = NPMI · n/(n + 1)

p(x) is the share of sentences that contain x, and p(x, y) of those that contain both, among the sentences with any
entity. A title and the headings above a passage count as part of each of its sentences. NPMI is 1 for two entities that
only occur together, and 0 for two that occur together by chance (Bouma, Normalized (pointwise) mutual information in
collocation extraction, 2009). n is the number of sentences with both; n/(n + 1) keeps a pair seen once from counting
like a rule (Pantel and Lin 2002). Each entity keeps its `MAX_RELATIONS` strongest relations, which limits how far a
step over relations can reach (`relate_all` keeps them all). A relation that an extractor read in the text has weight 1;
`relate_stated` keeps only these, and `relate_directed` only from the first entity to the second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefind.base.types import FloatArray, IntArray
from surefind.engine.graph import walk
from surefind.engine.graph.derive import HEADED, TITLED, Graph
from surefind.engine.graph.facts import MENTION, RELATION

MAX_RELATIONS = 32
"""Strongest relations kept per entity."""
_CROWD = 24
"""Most entities of one sentence that are paired, the rarest first: a list of hundreds of names relates nothing."""


@dataclass(frozen=True, eq=False)
class Relations:
    """Entity i is related to `entities[starts[i]:starts[i + 1]]`, strongest first, with the weights beside them."""

    starts: IntArray
    entities: IntArray
    weights: FloatArray

    def of(self, entity: int) -> tuple[IntArray, FloatArray]:
        span = slice(self.starts[entity], self.starts[entity + 1])
        return self.entities[span], self.weights[span]


def relate(graph: Graph) -> Relations:
    return _strongest(graph, *_pairs(graph), MAX_RELATIONS)


def relate_all(graph: Graph) -> Relations:
    return _strongest(graph, *_pairs(graph), len(graph.keys))


def relate_stated(graph: Graph) -> Relations:
    stated = _stated(graph)
    return _strongest(graph, stated[:, 0], stated[:, 1], np.ones(len(stated)), len(graph.keys))


def relate_directed(graph: Graph) -> Relations:
    pairs = np.unique(_stated(graph), axis=0).reshape(-1, 2)
    sizes = np.bincount(pairs[:, 0], minlength=len(graph.keys))
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return Relations(starts, pairs[:, 1].astype(np.int32), np.ones(len(pairs), np.float32))


def _pairs(graph: Graph) -> tuple[IntArray, IntArray, NDArray[np.float64]]:
    """Pairs of related entities and their weights."""
    starts, entities = _sentences(graph)
    held = np.bincount(entities, minlength=len(graph.keys)).astype(np.float64)
    pairs, together = np.unique(walk.pairs(starts, entities, len(graph.keys)), return_counts=True)
    a, b = np.divmod(pairs, max(1, len(graph.keys)))
    total = max(1, len(starts) - 1)
    weight = npmi(together, held[a], held[b], total) * together / (together + 1)
    # If both entities are in one chunk only, it is the same chunk, and the relation leads to no other.
    useful = (weight > 0) & ((graph.degrees[a] > 1) | (graph.degrees[b] > 1))
    stated = _stated(graph)
    a, b = np.concatenate([a[useful], stated[:, 0]]), np.concatenate([b[useful], stated[:, 1]])
    return a, b, np.concatenate([weight[useful], np.ones(len(stated))])


def npmi(
    together: NDArray[np.int64], a: NDArray[np.float64], b: NDArray[np.float64], total: int
) -> NDArray[np.float64]:
    joint = together / total
    likely = np.log(joint * total * total / (a * b))
    return np.asarray(np.where(joint < 1, likely / -np.log(np.where(joint < 1, joint, 0.5)), 0.0))


def _sentences(graph: Graph) -> tuple[IntArray, IntArray]:
    """The rarest `_CROWD` entities of each sentence, including those of title and headings: (starts, entities)."""
    rows, chunk = graph.facts.of(graph.allow)
    mentions = rows[:, 0] == MENTION
    entity = graph.canon[graph.facts.key_numbers[rows[mentions, 1]]]
    place = np.stack([chunk[mentions], rows[mentions, 3]], axis=1)[entity >= 0]
    sentence, unit = np.unique(place, axis=0, return_inverse=True)
    above = graph.roles & (TITLED | HEADED) > 0
    over = np.repeat(np.arange(graph.chunks), np.diff(graph.starts))[above]
    of_chunk = np.concatenate([[0], np.cumsum(np.bincount(over, minlength=graph.chunks))])
    counts = np.diff(of_chunk)[sentence[:, 0]] if len(sentence) else np.zeros(0, np.int64)
    firsts = of_chunk[:-1][sentence[:, 0]] if len(sentence) else np.zeros(0, np.int64)
    inside = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    units = np.concatenate([unit.ravel(), np.repeat(np.arange(len(sentence)), counts)])
    held = np.concatenate([entity[entity >= 0], graph.entities[above][np.repeat(firsts, counts) + inside]])
    code = np.unique(units.astype(np.int64) * max(1, len(graph.keys)) + held)
    units, held = np.divmod(code, max(1, len(graph.keys)))
    order = np.lexsort((held, graph.degrees[held], units))
    units, held = units[order], held[order]
    begins = np.searchsorted(units, np.arange(len(sentence)))
    kept = np.arange(len(units)) - begins[units] < _CROWD
    sizes = np.bincount(units[kept], minlength=len(sentence))
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32), held[kept].astype(np.int32)


def _stated(graph: Graph) -> IntArray:
    """The pairs of entities whose relation an extractor read in the text."""
    rows, _ = graph.facts.of(graph.allow)
    related = rows[rows[:, 0] == RELATION][:, 1:3]
    pairs = graph.canon[graph.facts.key_numbers[related]].reshape(-1, 2)
    both = (pairs >= 0).all(axis=1) & (pairs[:, 0] != pairs[:, 1])
    return np.asarray(pairs[both], np.int32)


def _strongest(graph: Graph, a: IntArray, b: IntArray, weight: NDArray[np.float64], most: int) -> Relations:
    """The relations in both directions, each pair once with its greatest weight. An edge is kept if it is among the
    `most` strongest of either end."""
    source, target, both = np.concatenate([a, b]), np.concatenate([b, a]), np.concatenate([weight, weight])
    order = np.lexsort((-both, target, source))
    source, target, both = source[order], target[order], both[order]
    first = np.ones(len(source), np.bool_)
    first[1:] = (source[1:] != source[:-1]) | (target[1:] != target[:-1])
    source, target, both = source[first], target[first], both[first]
    order = np.lexsort((target, -both, source))
    source, target, both = source[order], target[order], both[order]
    place = np.arange(len(source)) - np.searchsorted(source, source)
    near = place < most
    n = max(1, len(graph.keys))
    code = source.astype(np.int64) * n + target
    chosen = np.isin(code, np.concatenate([code[near], target[near].astype(np.int64) * n + source[near]]))
    sizes = np.bincount(source[chosen], minlength=len(graph.keys))
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return Relations(starts, target[chosen].astype(np.int32), both[chosen].astype(np.float32))
