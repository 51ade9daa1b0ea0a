"""A LlamaIndex retriever.

    retriever = SurefindRetriever("kb/", Access.of("staff"), k=5)
    nodes = retriever.retrieve("When do domestic wires leave?")

`access` has no default: make a retriever for each caller. They can share one `KnowledgeBase`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from surefind.adapters._shared import hits, metadata, opened
from surefind.base.access import Access
from surefind.base.types import Hit
from surefind.engine.search.hits import Extent
from surefind.engine.search.pipeline import Pipeline
from surefind.kb import KnowledgeBase

_PROMPT_METADATA = ("title", "document")
"""The metadata that LlamaIndex puts before the text in a prompt."""


class SurefindRetriever(BaseRetriever):
    """Finds passages of a knowledge base. `aretrieve` searches in a thread."""

    def __init__(
        self,
        kb: KnowledgeBase | str | Path,
        access: Access,
        k: int | None = None,
        pipeline: str | Pipeline | None = None,
        extent: Extent = Extent(),  # noqa: B008 - a frozen value
    ) -> None:
        super().__init__()
        self.kb = opened(kb)
        self.access, self.k, self.pipeline, self.extent = access, k, pipeline, extent

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        results = hits(self.kb, query_bundle.query_str, self.access, self.k, self.pipeline, self.extent)
        return [NodeWithScore(node=_node(hit), score=hit.score) for hit in results]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _node(hit: Hit) -> TextNode:
    about = metadata(hit)
    hidden = [name for name in about if name not in _PROMPT_METADATA]
    return TextNode(
        id_=hit.id,
        text=hit.text,
        metadata=about,
        excluded_llm_metadata_keys=hidden,
        excluded_embed_metadata_keys=list(about),
    )
