"""Finds communities of chunks and entities by the Leiden algorithm: large ones, divided into small ones.

    Q = 1/2m · Σ_ij [A_ij - k_i·k_j / 2m] · δ(c_i, c_j)

The graph is that of the agentic-knowledge-base study. Its nodes are chunks and entities. An edge joins a chunk and an
entity in it (rarer entities weigh more), and two related entities. Traag, Waltman and van Eck, From Louvain to Leiden,
Scientific Reports 2019, in the implementation of graspologic-native (MIT). The seed is fixed, so equal graphs have
equal communities.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surefind.base.disk.arrays import check_length, check_range, checked_array, read_archive
from surefind.base.errors import MissingPartError
from surefind.base.types import IntArray
from surefind.engine.graph.derive import TITLED, Graph
from surefind.engine.graph.relations import relate

MAX_COMMUNITY_NODES = 100
"""Most nodes of a small community; larger communities are divided further."""
_SEED = 42
_RANDOMNESS = 0.001
_ITERATIONS = 5
"""Iterations of Leiden. Two reach the modularity of igraph's default; five come within 0.002 of the value it converges
to (docs/results/graph.md)."""
_NONE = -1

Edge = tuple[str, str, float]


@dataclass(frozen=True, eq=False)
class Communities:
    """The community of each node (chunks by ordinal, then entities); -1 for nodes without an edge."""

    large: IntArray
    small: IntArray
    modularity: float
    """Modularity of the large communities."""

    def __len__(self) -> int:
        """Number of small communities."""
        return int(self.small.max(initial=_NONE)) + 1

    def save(self, folder: Path) -> None:
        np.savez(folder / "communities.npz", large=self.large, small=self.small, modularity=self.modularity)

    @classmethod
    def load(cls, folder: Path, nodes: int) -> Communities:
        """Reads the communities of a graph with this number of nodes."""
        saved = read_archive(folder / "communities.npz")
        large, small = (checked_array(name, saved[name], np.int32) for name in ("large", "small"))
        for name, numbers in (("large", large), ("small", small)):
            check_range(name, numbers, _NONE, nodes)
            check_length(name, numbers, nodes)
        return cls(large, small, float(saved["modularity"]))


def communities(graph: Graph, largest: int = MAX_COMMUNITY_NODES) -> Communities:
    nodes = graph.chunks + len(graph.keys)
    large, small = np.full(nodes, _NONE, np.int32), np.full(nodes, _NONE, np.int32)
    joined = edges(graph)
    if not joined:
        return Communities(large, small, 0.0)
    native = _native()
    clusters = native.hierarchical_leiden(
        edges=joined,
        starting_communities=None,
        resolution=1.0,
        randomness=_RANDOMNESS,
        iterations=_ITERATIONS,
        use_modularity=True,
        max_cluster_size=largest,
        seed=_SEED,
    )
    for row in clusters:
        if row.level == 0:
            large[int(row.node)] = row.cluster
        if row.is_final_cluster:
            small[int(row.node)] = row.cluster
    kept = {str(node): int(large[node]) for node in np.flatnonzero(large >= 0).tolist()}
    quality = native.modularity(joined, kept, 1.0)
    return Communities(_renumbered(large), _renumbered(small), float(quality))


def edges(graph: Graph) -> list[Edge]:
    """The edges of the graph whose communities are computed. An entity in a single chunk connects nothing, so its edge
    is left out, unless it is the title of the chunk's document."""
    chunk = np.repeat(np.arange(graph.chunks), np.diff(graph.starts))
    idf = np.log(1 + graph.chunks_there / np.maximum(1, graph.degrees)) / np.log(1 + max(1, graph.chunks_there))
    links = (graph.degrees[graph.entities] > 1) | (graph.roles & TITLED > 0)
    held = zip(chunk[links].tolist(), graph.entities[links].tolist(), idf[graph.entities[links]], strict=True)
    held_edges = [(str(c), str(graph.chunks + e), float(weight)) for c, e, weight in held]
    relations = graph.once(relate)
    source = np.repeat(np.arange(len(graph.keys)), np.diff(relations.starts))
    once = source < relations.entities
    related = zip(source[once].tolist(), relations.entities[once].tolist(), relations.weights[once], strict=True)
    return held_edges + [(str(graph.chunks + a), str(graph.chunks + b), float(weight)) for a, b, weight in related]


def _renumbered(numbers_of: IntArray) -> IntArray:
    """Renumbers the communities in the order of their first nodes."""
    numbers: dict[int, int] = {_NONE: _NONE}
    for community in numbers_of.tolist():
        numbers.setdefault(community, len(numbers) - 1)
    return np.array([numbers[community] for community in numbers_of.tolist()], np.int32)


def _native() -> Any:
    try:
        import graspologic_native
    except ImportError:
        raise MissingPartError(
            "Communities need the Leiden algorithm. Install it with: pip install 'surefind[graph]'."
        ) from None
    return graspologic_native
