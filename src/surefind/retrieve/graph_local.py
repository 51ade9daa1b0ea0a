"""`graph_local(hops=1, model=minilm)`: the passages around the query's entities, nearest in meaning first.

    C_0 = chunks that hold an entity of the query              E_1 = entities related to those of the query
    C_n = chunks that hold an entity of E_n                    C = C_0 ∪ … ∪ C_hops, ranked by cos(query, chunk)

Local search of the agentic-knowledge-base study (eqs. 5 to 10) after GraphRAG (Edge et al. 2024). The study walks
without limits; here a hop takes the `fan` strongest relations of each entity (`surefind.graph.relations`), and of the
chunks of the union the first `pool`: nearer hops first, then rarer entities. A query that names no entity finds
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from surefind import spec
from surefind.protocols import Progress, Reuse
from surefind.retrieve.dense import Dense
from surefind.retrieve.ppr import PPR
from surefind.spec import Stage, require
from surefind.types import PAD, BoolArray, Chunk, FloatArray, Query, Signal

if TYPE_CHECKING:
    from surefind.graph.derive import Graph
    from surefind.retrieve._graph import GraphIndex
    from surefind.services import Services


@dataclass(frozen=True)
class GraphLocal(Stage):
    kind: ClassVar[str] = "retrieve"
    name: ClassVar[str] = "graph_local"
    signal: ClassVar[Signal] = "graph"

    hops: Literal[0, 1, 2] = 1
    fan: int = 8
    pool: int = 500
    model: str = "minilm"
    extract: str = "phrases"

    def __post_init__(self) -> None:
        require(self.fan > 0, self, "fan must be at least 1")
        require(self.pool > 0, self, "pool must be at least 1")
        spec.make("extract", self.extract)
        self._near()

    @property
    def index_spec(self) -> str:
        return self._graph().index_spec

    def build(
        self,
        chunks: Sequence[Chunk],
        services: Services,
        reuse: Reuse | None = None,
        progress: Progress | None = None,
    ) -> GraphIndex:
        return self._graph().build(chunks, services, reuse, progress)

    def load(self, folder: Path, services: Services) -> GraphIndex:
        return self._graph().load(folder, services)

    def _near(self) -> Dense:
        return Dense(self.model)

    def _graph(self) -> PPR:
        """The graph is the one that `ppr` walks on, so they share an index."""
        return PPR(seed=("bm25", str(self._near())), extract=self.extract)

    def scores(self, index: GraphIndex, queries: Sequence[Query], allow: BoolArray | None) -> FloatArray:
        from surefind.retrieve._graph import padded

        found = np.zeros((len(queries), len(index)), np.float32)
        graph = index.graph(allow)
        pools = padded([self.candidates(graph, query.text) for query in queries])
        if not pools.size:
            return found
        cosines = index.near[self._near().index_spec].score(self._near(), queries, pools)
        for i, (pool, row) in enumerate(zip(pools, cosines, strict=True)):
            there = pool != PAD
            # From 0 to 1, as 0 says that a chunk is not a candidate: one as far away as can be still is.
            found[i, pool[there]] = np.maximum((1 + row[there]) / 2, np.finfo(np.float32).tiny)
        return found

    def candidates(self, graph: Graph, text: str) -> list[int]:
        """The chunks of the union, at most `pool`, in the order in which they are reached."""
        reached: dict[int, None] = {}
        known: set[int] = set()
        ring = graph.named_in(text)
        for _ in range(self.hops + 1):
            for entity in sorted(ring, key=lambda e: (graph.degrees[e], e)):
                reached.update(dict.fromkeys(graph.chunks_of(entity).tolist()))
                if len(reached) >= self.pool:
                    return list(reached)[: self.pool]
            known.update(ring)
            related = (graph.relations.of(entity)[0][: self.fan].tolist() for entity in ring)
            ring = sorted({other for others in related for other in others} - known)
        return list(reached)
