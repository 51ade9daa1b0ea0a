"""The index behind `graph_global`: a graph index with the communities of the whole graph and their summaries' vectors.

For a caller with restricted access, communities are computed at their first search, from the graph of the documents
they may read. The index on disk holds extractive summaries only; a language model writes its summaries at the first
search, for every caller.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

from surefind.base.disk.arrays import check_length, read_array
from surefind.base.errors import SurefindError
from surefind.base.protocols import Services
from surefind.base.types import EVERY, FloatArray, Mask
from surefind.engine.graph.communities import Communities, communities
from surefind.engine.graph.derive import Graph
from surefind.engine.graph.index import GraphIndex
from surefind.engine.graph.summaries import Summary, SummaryWriter, summarise


@dataclass(frozen=True, eq=False)
class Overview:
    """The communities of one graph, their summaries and the vectors of the summaries."""

    communities: Communities
    summaries: list[Summary]
    vectors: FloatArray
    failures: tuple[SurefindError, ...] = ()
    """The errors of the summaries that a language model should have written and did not."""


class CommunityIndex(GraphIndex):
    def __init__(self, graph: GraphIndex, services: Services, model: str) -> None:
        super().__init__(graph.facts, services)
        self._model = model
        self._overviews: WeakKeyDictionary[Graph, Overview] = WeakKeyDictionary()
        self._written: WeakKeyDictionary[Graph, dict[SummaryWriter, Overview]] = WeakKeyDictionary()
        self._deriving = threading.Lock()
        self._writing = threading.Lock()  # one thread calls the model; searches without a model do not wait for it

    def overview(self, allow: Mask, writer: SummaryWriter | None = None) -> Overview:
        """The overview of the chunks that `allow` permits, with summaries by `writer` if one is given.

        Cached as long as its graph is. An overview by a writer is cached only if the writer wrote every summary.
        """
        with self._deriving:
            graph = self.graph(allow)
            if graph not in self._overviews:
                partition = communities(graph)
                self._overviews[graph] = self._made(partition, summarise(graph, partition))
            plain = self._overviews[graph]
        if writer is None:
            return plain
        with self._writing:
            known = self._written.setdefault(graph, {})
            if writer in known:
                return known[writer]
            summaries, failures = writer.write(graph, plain.communities, plain.summaries, self.services)
            made = self._made(plain.communities, summaries, failures)
            if not failures:
                known[writer] = made
            return made

    def _made(
        self, partition: Communities, summaries: list[Summary], failures: Sequence[SurefindError] = ()
    ) -> Overview:
        vectors = self.services.embedder(self._model).embed([summary.text for summary in summaries])
        return Overview(partition, summaries, vectors, tuple(failures))

    def save(self, folder: Path) -> None:
        super().save(folder)
        made = self.overview(EVERY)
        made.communities.save(folder)
        np.save(folder / "summaries.npy", made.vectors)

    def restore(self, folder: Path) -> None:
        """Loads the saved overview of the whole graph."""
        graph = self.graph(EVERY)
        partition = Communities.load(folder, graph.chunks + len(graph.keys))
        summaries = summarise(graph, partition)
        vectors = read_array(folder / "summaries.npy", np.float32, ndim=2, mapped=False)
        check_length("summaries", vectors, len(summaries))
        self._overviews[graph] = Overview(partition, summaries, vectors)
