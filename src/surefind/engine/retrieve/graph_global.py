"""`graph_global(communities=5, model=minilm)`: passages of the communities whose summaries are nearest to the query.

    score(c) = ½ cos(query, summary of c's community) + ½ cos(query, c), scaled to 0 … 1

Global search of the agentic-knowledge-base study after GraphRAG (Edge et al. 2024). A broad question is compared with
the summaries of whole parts of the graph (`surefind.engine.graph.summaries`), and only passages of the `communities`
best are ranked. `surefind ask` composes its answer from the summaries, if this is the only retriever. Needs
`surefind[graph]` for the Leiden algorithm.

With `summaries=llm`, a language model (`llm`, or the one in surefind.toml) writes the summaries: one call for each
community of the documents that the caller may read, at the first question; the answers are cached. Communities without
an answer keep their extractive summary, and the trace says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, cast

import numpy as np

from surefind.base import spec
from surefind.base.prompts.prompt import Prompt
from surefind.base.prompts.values import Calls, Workload
from surefind.base.protocols import Index, Progress, Retriever, Reuse, Services
from surefind.base.running import count_without_model, note
from surefind.base.spec import Stage, require
from surefind.base.types import Chunk, FloatArray, Mask, Query, Signal
from surefind.engine.graph.summaries import LISTED, QUOTED, SLOTS, TOKENS, SummaryWriter
from surefind.engine.llm import prices
from surefind.engine.retrieve._aided import Aided

if TYPE_CHECKING:
    from surefind.engine.graph.index import GraphIndex
    from surefind.engine.retrieve._communities import CommunityIndex, Overview

_CHUNKS = 4
"""Assumed chunks per community, used for cost estimates. The sample has six; a low value makes the estimate too high
rather than too low."""
_LEAD_WORDS = 30
"""Assumed words in a lead sentence, used for cost estimates."""
_NAME_WORDS = 4
"""Assumed words in an entity's name, used for cost estimates."""


@dataclass(frozen=True)
class GraphGlobal(Aided, Stage):
    kind: ClassVar[str] = "retrieve"
    name: ClassVar[str] = "graph_global"
    signal: ClassVar[Signal] = "graph"

    communities: int = 5
    model: str = "minilm"
    extract: str = "phrases"
    summaries: Literal["extractive", "llm"] = "extractive"
    llm: str | None = None
    prompt: str = "v1"
    context: bool = False
    """As in `graph_local`."""

    def __post_init__(self) -> None:
        require(self.communities > 0, self, "communities must be at least 1")
        spec.make("extract", self.extract)
        self._near()

    def index_spec(self, services: Services) -> str:
        return f"communities({self._graph().index_spec(services)}, {self._near().index_spec(services)})"

    def build(
        self,
        chunks: Sequence[Chunk],
        services: Services,
        reuse: Reuse | None = None,
        progress: Progress | None = None,
    ) -> CommunityIndex:
        from surefind.engine.retrieve._communities import CommunityIndex

        return CommunityIndex(self._graph().build(chunks, services, reuse, progress), services, self.model)

    def load(self, folder: Path, services: Services) -> CommunityIndex:
        from surefind.engine.retrieve._communities import CommunityIndex

        index = CommunityIndex(self._graph().load(folder, services), services, self.model)
        index.restore(folder)
        return index

    @property
    def inner(self) -> Retriever | None:
        return None if self.summaries == "extractive" else replace(self, summaries="extractive")

    def template(self, services: Services) -> Prompt:
        return services.prompt(self.name, self.prompt, SLOTS)

    def llm_calls(self, work: Workload) -> Calls:
        """Estimates one call per community of all passages, however many questions there are."""
        count = 0 if self.inner is None else -(-work.chunks // _CHUNKS)
        shown = QUOTED * prices.text(_LEAD_WORDS) + prices.text(LISTED * _NAME_WORDS)
        return prices.calls(self.llm, count, shown, TOKENS)

    def _overview(self, index: CommunityIndex, allow: Mask) -> Overview:
        if self.summaries == "extractive":
            return index.overview(allow)
        return index.overview(allow, SummaryWriter(self.llm, self.template(index.services)))

    def summaries_of(self, index: Index, places: Sequence[int], allow: Mask) -> list[str]:
        """The summary of the community of each chunk; "" for a chunk without one."""
        overview = self._overview(cast("CommunityIndex", index), allow)
        homes = overview.communities.small[list(places)].tolist()
        return [overview.summaries[home].text if home >= 0 else "" for home in homes]

    def scores(self, index: GraphIndex, queries: Sequence[Query], allow: Mask) -> FloatArray:
        all_scores = np.zeros((len(queries), len(index)), np.float32)
        if not len(queries):
            return all_scores
        overview = self._overview(cast("CommunityIndex", index), allow)
        if overview.failures:
            failed = f"{len(overview.failures)} of {len(overview.summaries)}"
            note(f"{failed} summaries taken from the text: {overview.failures[0]}")
            count_without_model(len(queries))
        if not len(overview.summaries):
            return all_scores
        member = overview.communities.small[: len(index)]
        vectors = index.near[str(self._near())]
        near = vectors.points(queries) @ overview.vectors.T
        for i, query in enumerate(queries):
            best = np.lexsort((np.arange(near.shape[1]), -near[i]))[: self.communities]
            pool = np.flatnonzero(np.isin(member, best))
            if len(pool):
                cosines = vectors.score(self._near(), [query], pool[None], allow)[0]
                scaled = (2 + near[i, member[pool]] + cosines) / 4
                all_scores[i, pool] = np.maximum(scaled, np.finfo(np.float32).tiny)
        return all_scores
