"""Random walks between chunks and their entities.

From a chunk, a walker goes to one of its entities; rare entities (idf) and titles of other documents (`LINK`) are more
likely. From an entity, it goes to a chunk of the entity; chunks of the document with this title (`TITLE`) and chunks
under this heading (`HEADING`) are more likely. The weights were tuned on two-hop questions over encyclopedia articles
(docs/results/graph.md): the two passages of such a question are joined because one names the article of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefind.base.types import FloatArray, Floats, IntArray
from surefind.engine.graph import kernels
from surefind.engine.graph.derive import HEADED, LINKS, TITLED, Graph

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
        return np.asarray(kernels.push(self.starts, self.targets, self.shares, at, how_much, damping, epsilon))


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
    return np.asarray(kernels.power(starts, targets, shares, restart, damping, 1e-13, 1000))
