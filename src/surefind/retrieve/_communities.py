"""The index behind `graph_global`: a graph index with the communities of the whole graph and their summaries' vectors.

For a caller who may read less, communities are sought in the graph of what they may read, when first asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from surefind.graph.communities import Communities, communities
from surefind.graph.derive import Graph
from surefind.graph.summaries import Summary, summarise
from surefind.retrieve._graph import GraphIndex
from surefind.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from surefind.services import Services


@dataclass(frozen=True, eq=False)
class Overview:
    """The communities of one graph: summaries, and their vectors."""

    communities: Communities
    summaries: list[Summary]
    vectors: FloatArray


class CommunityIndex(GraphIndex):
    def __init__(self, graph: GraphIndex, services: Services, model: str) -> None:
        super().__init__(graph.facts, graph.near)
        self._services = services
        self._model = model
        self._overviews: WeakKeyDictionary[Graph, Overview] = WeakKeyDictionary()

    def overview(self, allow: BoolArray | None = None) -> Overview:
        """Kept as long as the graph that it is of."""
        with self._deriving:
            graph = self.graph(allow)
            if graph not in self._overviews:
                self._overviews[graph] = self._made(graph, communities(graph))
            return self._overviews[graph]

    def _made(self, graph: Graph, found: Communities) -> Overview:
        summaries = summarise(graph, found)
        vectors = self._services.embedder(self._model).embed([summary.text for summary in summaries])
        return Overview(found, summaries, vectors)

    def save(self, folder: Path) -> None:
        super().save(folder)
        made = self.overview()
        made.communities.save(folder)
        np.save(folder / "summaries.npy", made.vectors)

    def restore(self, folder: Path) -> None:
        """What was saved, of the whole graph."""
        graph, found = self.graph(), Communities.load(folder)
        self._overviews[graph] = Overview(found, summarise(graph, found), np.load(folder / "summaries.npy"))
