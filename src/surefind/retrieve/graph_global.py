"""`graph_global(communities=5, model=minilm)`: passages of the communities whose summaries are nearest to the query.

    score(c) = ½ cos(query, summary of c's community) + ½ cos(query, c), scaled to 0 … 1

Global search of the agentic-knowledge-base study after GraphRAG (Edge et al. 2024): a broad question is held against
what whole parts of the graph are about (`surefind.graph.summaries`), and only the `communities` best of them are
opened. Needs `surefind[graph]` for the Leiden algorithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from surefind import spec
from surefind.protocols import Progress, Reuse
from surefind.retrieve.dense import Dense
from surefind.retrieve.ppr import PPR
from surefind.spec import Stage, require
from surefind.types import BoolArray, Chunk, FloatArray, Query, Signal

if TYPE_CHECKING:
    from surefind.retrieve._communities import CommunityIndex
    from surefind.retrieve._graph import GraphIndex
    from surefind.services import Services


@dataclass(frozen=True)
class GraphGlobal(Stage):
    kind: ClassVar[str] = "retrieve"
    name: ClassVar[str] = "graph_global"
    signal: ClassVar[Signal] = "graph"

    communities: int = 5
    model: str = "minilm"
    extract: str = "phrases"

    def __post_init__(self) -> None:
        require(self.communities > 0, self, "communities must be at least 1")
        spec.make("extract", self.extract)
        self._near()

    @property
    def index_spec(self) -> str:
        return f"communities({self._graph().index_spec})"

    def build(
        self,
        chunks: Sequence[Chunk],
        services: Services,
        reuse: Reuse | None = None,
        progress: Progress | None = None,
    ) -> CommunityIndex:
        from surefind.retrieve._communities import CommunityIndex

        return CommunityIndex(self._graph().build(chunks, services, reuse, progress), services, self.model)

    def load(self, folder: Path, services: Services) -> CommunityIndex:
        from surefind.retrieve._communities import CommunityIndex

        index = CommunityIndex(self._graph().load(folder, services), services, self.model)
        index.restore(folder)
        return index

    def _near(self) -> Dense:
        return Dense(self.model)

    def _graph(self) -> PPR:
        return PPR(seed=("bm25", str(self._near())), extract=self.extract)

    def scores(self, index: GraphIndex, queries: Sequence[Query], allow: BoolArray | None) -> FloatArray:
        found = np.zeros((len(queries), len(index)), np.float32)
        overview = cast("CommunityIndex", index).overview(allow)
        if not len(overview.summaries) or not len(queries):
            return found
        member = overview.communities.small[: len(index)]
        vectors = index.near[self._near().index_spec]
        near = vectors.points(queries) @ overview.vectors.T
        for i, query in enumerate(queries):
            best = np.lexsort((np.arange(near.shape[1]), -near[i]))[: self.communities]
            pool = np.flatnonzero(np.isin(member, best)).astype(np.int32)
            if len(pool):
                cosines = vectors.score(self._near(), [query], pool[None])[0]
                scaled = (2 + near[i, member[pool]] + cosines) / 4
                found[i, pool] = np.maximum(scaled, np.finfo(np.float32).tiny)
        return found
