"""The numba kernels of the graph: power iteration, local walks, overlaps of chunks, pairs of entities."""

from __future__ import annotations

import numpy as np
from numba import njit


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
