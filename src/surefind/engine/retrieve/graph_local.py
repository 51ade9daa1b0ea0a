"""`graph_local(hops=1, model=minilm)`: the passages around the query's entities, ranked by similarity to the query.

    C_0 = chunks that hold an entity of the query              E_1 = entities related to those of the query
    C_n = chunks that hold an entity of E_n                    C = C_0 ∪ … ∪ C_hops, ranked by cos(query, chunk)

Local search of the agentic-knowledge-base study (eqs. 5 to 10) after GraphRAG (Edge et al. 2024). A hop follows the
`fan` strongest relations of each entity (`surefind.engine.graph.relations`), and C keeps its first `pool` chunks:
nearer hops first, then rarer entities. A query that names no entity finds nothing. The study has no limits: `fan=null`
follows every relation, and `pool=null` keeps every chunk. Its relations are those that the extractor read in the text,
with `extract=llm`: `edges=stated` follows them in both directions, `edges=directed` from the first entity to the
second, as in eqs. 6 and 7. With `context=true`, entities and relations are read in the context of a passage too, such
as that of `llm_context`. The study's *Graph + Agentic* does so, and finds that it leads to passages that say nothing of
the sort.

A query's entities are the names from the graph that occur in the query. With `entities=llm`, a language model (`llm`,
or the one in surefind.toml) names more of them: one call per query, with the prompt that also reads passages. Names
that are not in the query are rejected. `entities=llm_alone` searches from the model's names alone, as in the study; if
there is no answer, or none of its names is in the graph, the names from the graph are used, and the trace says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from surefind.base import spec
from surefind.base.errors import SurefindError
from surefind.base.prompts.prompt import Prompt
from surefind.base.prompts.values import Calls, Workload
from surefind.base.protocols import Progress, Retriever, Reuse, Services
from surefind.base.running import note
from surefind.base.spec import Stage, require
from surefind.base.types import PAD, Chunk, FloatArray, Mask, Query, Signal
from surefind.engine.extract.llm import LLM
from surefind.engine.llm import prices
from surefind.engine.llm.ask import note_failures
from surefind.engine.retrieve._aided import Aided

if TYPE_CHECKING:
    from surefind.engine.graph.derive import Graph
    from surefind.engine.graph.index import GraphIndex

_ANSWER = 150
"""Assumed tokens of an answer, used for cost estimates."""


@dataclass(frozen=True)
class GraphLocal(Aided, Stage):
    kind: ClassVar[str] = "retrieve"
    name: ClassVar[str] = "graph_local"
    signal: ClassVar[Signal] = "graph"

    hops: Literal[0, 1, 2] = 1
    fan: int | None = 8
    pool: int | None = 500
    model: str = "minilm"
    extract: str = "phrases"
    entities: Literal["lexicon", "llm", "llm_alone"] = "lexicon"
    llm: str | None = None
    prompt: str = "v1"
    edges: Literal["related", "stated", "directed"] = "related"
    temperature: float | None = None
    """The temperature at which the model names entities; None means 0. The study has 0.2."""
    context: bool = False
    """Whether entities are read in the context of a passage too."""

    def __post_init__(self) -> None:
        require(self.fan is None or self.fan > 0, self, "fan must be at least 1")
        require(self.pool is None or self.pool > 0, self, "pool must be at least 1")
        spec.make("extract", self.extract)
        self._near()

    def index_spec(self, services: Services) -> str:
        return self._graph().index_spec(services)

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

    @property
    def inner(self) -> Retriever | None:
        return None if self.entities == "lexicon" else replace(self, entities="lexicon")

    def template(self, services: Services) -> Prompt:
        return self._reader().template(services)

    def llm_calls(self, work: Workload) -> Calls:
        return prices.calls(self.llm, 0 if self.inner is None else work.queries, 0, _ANSWER)

    def _reader(self) -> LLM:
        return LLM(self.llm, self.prompt, self.temperature)

    def scores(self, index: GraphIndex, queries: Sequence[Query], allow: Mask) -> FloatArray:
        from surefind.engine.graph.index import padded

        all_scores = np.zeros((len(queries), len(index)), np.float32)
        graph = index.graph(allow)
        named = self._named(graph, [query.text for query in queries], index.services)
        pools = padded([self.candidates(graph, entities) for entities in named])
        if not pools.size:
            return all_scores
        cosines = index.near[str(self._near())].score(self._near(), queries, pools, allow)
        for i, (pool, row) in enumerate(zip(pools, cosines, strict=True)):
            there = pool != PAD
            # Cosines are scaled to 0 … 1. A score of 0 means "not a candidate", so a candidate always gets more.
            all_scores[i, pool[there]] = np.maximum((1 + row[there]) / 2, np.finfo(np.float32).tiny)
        return all_scores

    def _named(self, graph: Graph, texts: Sequence[str], services: Services) -> list[list[int]]:
        """The entities of each query."""
        by_lexicon = [graph.named_in(text) for text in texts]
        if self.entities == "lexicon":
            if by_lexicon == [[]]:
                note("the question names no entity in the graph")
            return by_lexicon
        entities, failed = [], []
        for read, otherwise in zip(self._reader().read(texts, services), by_lexicon, strict=True):
            if isinstance(read, SurefindError):
                failed.append(read)
                entities.append(otherwise)
                continue
            named = sorted({entity for mention in read.mentions for entity in graph.named_in(mention.name)})
            if self.entities == "llm":
                named = sorted({*named, *otherwise})
            elif not named and otherwise:
                note("names found in the graph, because the graph has none of the model's names")
            entities.append(named or otherwise)
        note_failures(failed, len(texts), "names found in the graph")
        return entities

    def candidates(self, graph: Graph, ring: Sequence[int]) -> list[int]:
        """The chunks within `hops` of some entities, at most `pool`, in the order in which they are reached."""
        from surefind.engine.graph.relations import relate, relate_all, relate_directed, relate_stated

        read = {"stated": relate_stated, "directed": relate_directed}
        related = graph.once(read.get(self.edges, relate if self.fan else relate_all))
        reached: dict[int, None] = {}
        known: set[int] = set()
        for _ in range(self.hops + 1):
            for entity in sorted(ring, key=lambda e: (graph.degrees[e], e)):
                reached.update(dict.fromkeys(graph.chunks_of(entity).tolist()))
                if self.pool and len(reached) >= self.pool:
                    return list(reached)[: self.pool]
            known.update(ring)
            nearest = (related.of(entity)[0][: self.fan].tolist() for entity in ring)
            ring = sorted({other for others in nearest for other in others} - known)
        return list(reached)
