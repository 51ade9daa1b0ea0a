"""`ppr(seeds=10, entities=0.5, damping=0.7, when=always)`: personalised PageRank over passages and entities.

    score(c) = √ π_c        π = (1 - d)·s + d·π·P        s = entities · query's entities + rest · nearest passages

A random walk that, with probability 1 - d, jumps back to its seeds. The seeds are the passages nearest to the query
(weighted by how much nearer they are than the last of them) and the entities in the query that are the title of a
document or section (rarer ones weigh more). Passages linked to the seeds are found even if they share neither words nor
meaning with the query. The seeds keep most of the mass, so simple questions lose nothing.

Gutiérrez et al., From RAG to Memory (HippoRAG 2), ICML 2025, with three changes: entities are found by the shape of
words instead of by an LLM; titles are links (`surefind.engine.graph.walk`); and lexical as well as dense search gives
the seeds, because from vectors alone the walk inherits their misses (docs/results/graph.md). The square root keeps the
order and gives linked passages more weight when scores are added up.

`when=names` walks only for a question that has two names in it, such as "Who signs for the Wire Desk at North Branch?":
what joins two things often stands in two documents. Other questions get no passage and no score from the walk, so a
fusion by ranks or by weights keeps the order that it has without.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, cast

import numpy as np

from surefind.base import spec
from surefind.base.protocols import Extractor, Index, Progress, Retriever, Reuse, Services
from surefind.base.spec import Stage, require
from surefind.base.types import Chunk, FloatArray, Mask, Query, Signal

if TYPE_CHECKING:
    from surefind.engine.graph.derive import Graph
    from surefind.engine.graph.index import GraphIndex

_FORMAT = 4
"""Version of the index. Increase it when the same text gives different facts."""
_EPSILON = 1e-5
"""How much mass of the walk may be ignored at a node, per outgoing edge."""

_WORD = re.compile(r"\w[\w'’.&-]*")


def has_two_names(question: str) -> bool:
    """Whether two runs of capitalised words stand in a question. Its first word does not count: it is capitalised for
    being first."""
    words: list[str] = _WORD.findall(question)
    capital = [word[0].isupper() for word in words[1:]]
    return sum(now and not before for before, now in pairwise([False, *capital])) >= 2


@dataclass(frozen=True)
class PPR(Stage):
    kind: ClassVar[str] = "retrieve"
    name: ClassVar[str] = "ppr"
    signal: ClassVar[Signal] = "graph"

    seed: tuple[str, ...] = ("bm25", "dense")
    """The retrievers whose best passages are the seeds of the walk."""
    seeds: int = 10
    entities: float = 0.5
    """The share of walks that start from the query's entities, if it names any."""
    damping: float = 0.7
    extract: str = "phrases"
    when: Literal["always", "names"] = "always"
    """Whether to walk for every question, or only for those with two names."""
    context: bool = False
    """Whether entities are read in the context of a passage too, such as that of `llm_context`."""

    def __post_init__(self) -> None:
        require(self.seeds > 0, self, "seeds must be at least 1")
        require(0 <= self.entities <= 1, self, "entities must be from 0 to 1")
        require(0 <= self.damping < 1, self, "damping must be at least 0 and below 1")
        require(bool(self.seed), self, "seed must name at least one retriever")
        require(
            all(retriever.signal != "graph" for retriever in self.near), self, "seed must not name a graph retriever"
        )
        spec.make("extract", self.extract)

    @property
    def near(self) -> tuple[Retriever, ...]:
        return tuple(cast(Retriever, spec.make("retrieve", text)) for text in self.seed)

    def index_spec(self, services: Services) -> str:
        context = ", context=true" if self.context else ""
        return f"graph(extract={spec.make('extract', self.extract)}{context})@{_FORMAT}"

    @property
    def uses(self) -> tuple[Retriever, ...]:
        return self.near

    def over(self, index: Index, used: Sequence[Index]) -> GraphIndex:
        return cast("GraphIndex", index).over(self.uses, used)

    def build(
        self,
        chunks: Sequence[Chunk],
        services: Services,
        reuse: Reuse | None = None,
        progress: Progress | None = None,
    ) -> GraphIndex:
        from surefind.engine.graph.index import GraphIndex

        extractor = cast(Extractor, spec.make("extract", self.extract))
        return GraphIndex.build(chunks, extractor, services, reuse, progress, self.context)

    def load(self, folder: Path, services: Services) -> GraphIndex:
        from surefind.engine.graph.index import GraphIndex

        return GraphIndex.load(folder, services)

    def scores(self, index: GraphIndex, queries: Sequence[Query], allow: Mask) -> FloatArray:
        all_scores = np.zeros((len(queries), len(index)), np.float32)
        if not len(index) or not len(queries):
            return all_scores
        from surefind.engine.graph.walk import ways

        walked = [i for i, query in enumerate(queries) if self.when == "always" or has_two_names(query.text)]
        if not walked:
            return all_scores
        graph = index.graph(allow)
        asked = [queries[i] for i in walked]
        near = index.nearest(self.near, asked, self.seeds, allow)
        for i, query, (passages, scores) in zip(walked, asked, near, strict=True):
            at, weights = self._start(graph, query.text, passages, scores)
            if at:
                mass = graph.once(ways).near(at, weights, self.damping, _EPSILON)
                all_scores[i] = np.sqrt(mass[: len(index)])
        return all_scores

    def _start(self, graph: Graph, text: str, passages: list[int], scores: FloatArray) -> tuple[list[int], list[float]]:
        """The seed nodes and the share of the walk that starts at each; the shares sum to 1."""
        named = [entity for entity in graph.named_in(text) if graph.heads[entity]] if self.entities else []
        rare = 1 / graph.degrees[named]
        near = scores - scores.min(initial=np.inf)
        near = near if near.any() else np.ones_like(near)
        share = self.entities if named else 0.0
        share = share if passages else 1.0
        return (
            [graph.chunks + entity for entity in named] + passages,
            [*(share * rare / rare.sum()).tolist(), *((1 - share) * near / near.sum()).tolist()],
        )
