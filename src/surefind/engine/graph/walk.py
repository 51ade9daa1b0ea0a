"""Random walks between chunks and their entities.

From a chunk, a walker goes to one of its entities; rare entities (idf) and titles of other documents (`LINK`) are more
likely. From an entity, it goes to a chunk of the entity; chunks of the document with this title (`TITLE`) and chunks
under this heading (`HEADING`) are more likely. The weights were tuned on two-hop questions over encyclopedia articles
(docs/results/graph.md): the two passages of such a question are joined because one names the article of the other.

The numba kernels of the graph: power iteration, local walks, overlaps of chunks, pairs of entities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from surefind.base.types import FloatArray, Floats, IntArray
from surefind.engine.graph.derive import HEADED, LINKS, TITLED, Graph


@njit(cache=True, nogil=True)
def power(starts, targets, shares, restart, damping, tolerance, most):  # type: ignore[no-untyped-def]
    """Personalised PageRank: x = (1 - d)·restart + d·(x·P + stuck·restart), where stuck is the mass at nodes without
    outgoing edges."""
    n = len(starts) - 1
    x = restart.copy()
    for _ in range(most):
        after = np.zeros(n)
        stuck = 0.0
        for u in range(n):
            if starts[u] == starts[u + 1]:
                stuck += x[u]
            for e in range(starts[u], starts[u + 1]):
                after[targets[e]] += x[u] * shares[e]
        change = 0.0
        for u in range(n):
            after[u] = (1 - damping) * restart[u] + damping * (after[u] + stuck * restart[u])
            change += abs(after[u] - x[u])
        x = after
        if change < tolerance * n:
            break
    return x


@njit(cache=True, nogil=True)
def push(starts, targets, shares, seeds, weights, damping, epsilon):  # type: ignore[no-untyped-def]
    """Personalised PageRank by local push: the mass that each node keeps of walks from the seeds.

    A node passes its residue on only while the residue exceeds `epsilon` per outgoing edge. So the cost depends on
    `epsilon` and not on the size of the graph, and no node is off by more than the residue that was not passed on.
    """
    n = len(starts) - 1
    kept = np.zeros(n)
    residue = np.zeros(n)
    queued = np.zeros(n, np.bool_)
    queue = np.empty(n, np.int32)  # a ring: a node is in it at most once
    head = 0
    waiting = 0
    for i in range(len(seeds)):
        u = seeds[i]
        residue[u] += weights[i]
        if not queued[u]:
            queued[u] = True
            queue[waiting] = u
            waiting += 1
    while waiting:
        u = queue[head]
        head = head + 1 if head + 1 < n else 0
        waiting -= 1
        queued[u] = False
        mass = residue[u]
        residue[u] = 0.0
        kept[u] += (1 - damping) * mass
        for e in range(starts[u], starts[u + 1]):
            v = targets[e]
            residue[v] += damping * mass * shares[e]
            ways = starts[v + 1] - starts[v]
            if not queued[v] and residue[v] > epsilon * max(1, ways):
                queued[v] = True
                tail = head + waiting
                queue[tail if tail < n else tail - n] = v
                waiting += 1
    return kept


@njit(cache=True, nogil=True)
def overlaps(starts, entities, names, window, least):  # type: ignore[no-untyped-def]
    """Joins chunks that share at least `least` entities; returns the edges in both directions as (starts, neighbours).
    With a window, chunk i is compared with i + 1 … i + window only; without one, with all chunks after it."""
    n = len(starts) - 1
    sizes = np.zeros(names + 1, np.int64)
    for entity in entities:
        sizes[entity + 1] += 1
    firsts = np.cumsum(sizes)
    holders = np.empty(len(entities), np.int32)
    filled = firsts[:-1].copy()
    for i in range(n):
        for e in range(starts[i], starts[i + 1]):
            holders[filled[entities[e]]] = i
            filled[entities[e]] += 1
    shared = np.zeros(n, np.int32)
    left = np.empty(1024, np.int32)
    right = np.empty(1024, np.int32)
    edges = 0
    touched = np.empty(n, np.int32)
    after = firsts[:-1].copy()  # where, in each entity's list, the chunks after chunk i begin
    for i in range(n):
        many = 0
        for e in range(starts[i], starts[i + 1]):
            entity = entities[e]
            after[entity] += 1
            for h in range(after[entity], firsts[entity + 1]):
                j = holders[h]
                if window > 0 and j > i + window:
                    break
                if shared[j] == 0:
                    touched[many] = j
                    many += 1
                shared[j] += 1
        for t in range(many):
            j = touched[t]
            if shared[j] >= least:
                if edges == len(left):
                    left = np.concatenate((left, np.empty(edges, np.int32)))
                    right = np.concatenate((right, np.empty(edges, np.int32)))
                left[edges] = i
                right[edges] = j
                edges += 1
            shared[j] = 0
    places = np.zeros(n + 1, np.int32)
    for e in range(edges):
        places[left[e] + 1] += 1
        places[right[e] + 1] += 1
    for i in range(n):
        places[i + 1] += places[i]
    neighbours = np.empty(2 * edges, np.int32)
    filled32 = places[:-1].copy()
    for e in range(edges):
        neighbours[filled32[left[e]]] = right[e]
        filled32[left[e]] += 1
        neighbours[filled32[right[e]]] = left[e]
        filled32[right[e]] += 1
    return places, neighbours


@njit(cache=True, nogil=True)
def pairs(starts, entities, names):  # type: ignore[no-untyped-def]
    """Every pair of entities of a sentence, encoded as lesser · names + greater."""
    total = 0
    for i in range(len(starts) - 1):
        size = starts[i + 1] - starts[i]
        total += size * (size - 1) // 2
    keys = np.empty(total, np.int64)
    at = 0
    for i in range(len(starts) - 1):
        for e in range(starts[i], starts[i + 1]):
            for f in range(e + 1, starts[i + 1]):
                low = min(entities[e], entities[f])
                keys[at] = np.int64(low) * names + max(entities[e], entities[f])
                at += 1
    return keys


LINK = 5.0
TITLE = 50.0
HEADING = 2.0


@dataclass(frozen=True, eq=False)
class Ways:
    """The transition probabilities of a walk: from node u to `targets[starts[u]:starts[u + 1]]`, with `shares` in the
    same places, which sum to 1. The nodes are chunks by ordinal, then entities."""

    starts: IntArray
    targets: IntArray
    shares: FloatArray

    @classmethod
    def weighted(cls, starts: Any, targets: Any, weights: Any) -> Ways:
        nodes = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        sums = np.bincount(nodes, weights, minlength=len(starts) - 1)
        return cls(starts, targets.astype(np.int32), (weights / sums[nodes]).astype(np.float32))

    def near(self, seeds: Sequence[int], weights: Sequence[float], damping: float, epsilon: float) -> Floats:
        """Personalised PageRank by local push: Andersen, Chung and Lang, Local graph partitioning using PageRank
        vectors, 2006."""
        at, how_much = np.array(seeds, np.int32), np.array(weights, np.float64)
        return np.asarray(push(self.starts, self.targets, self.shares, at, how_much, damping, epsilon))


def ways(graph: Graph) -> Ways:
    there, chunks, roles = graph.by_entity
    idf = np.log(1 + graph.chunks_there / np.maximum(graph.degrees, 1))
    out = np.where(graph.roles & LINKS, LINK, 1.0) * idf[graph.entities]
    back = np.where(roles & TITLED, TITLE, np.where(roles & HEADED, HEADING, 1.0))
    starts = np.concatenate([graph.starts[:-1], graph.starts[-1] + there]).astype(np.int32)
    targets = np.concatenate([graph.entities + np.int32(graph.chunks), chunks])
    return Ways.weighted(starts, targets, np.concatenate([out, back]))


def pagerank(starts: IntArray, targets: IntArray, damping: float = 0.85) -> Floats:
    """PageRank of every node, with equal weights for all edges (Brin and Page 1998). A walker at a node without edges
    restarts anywhere."""
    n = len(starts) - 1
    restart = np.full(n, 1 / max(1, n))
    shares = 1 / np.maximum(1, np.repeat(np.diff(starts), np.diff(starts)))
    return np.asarray(power(starts, targets, shares, restart, damping, 1e-13, 1000))
