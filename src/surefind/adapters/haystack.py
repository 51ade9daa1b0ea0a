"""A Haystack component.

    retriever = SurefindRetriever("kb/", Access.of("staff"), k=5)
    documents = retriever.run("When do domestic wires leave?")["documents"]

`access` has no default: make a component for each caller. They can share one `KnowledgeBase`.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

# Haystack sends events to its maker, unless this is set before it is loaded. Nothing leaves the machine by default.
os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")

from haystack import Document, component

from surefind.adapters._shared import hits, metadata, opened
from surefind.base.access import Access
from surefind.engine.search.hits import Extent
from surefind.engine.search.pipeline import Pipeline
from surefind.kb import KnowledgeBase


@component
class SurefindRetriever:
    """Finds passages of a knowledge base. In an asynchronous pipeline it searches in a thread."""

    def __init__(
        self,
        kb: KnowledgeBase | str | Path,
        access: Access,
        k: int | None = None,
        pipeline: str | Pipeline | None = None,
        extent: Extent = Extent(),  # noqa: B008 - a frozen value
    ) -> None:
        self.kb = opened(kb)
        self.access, self.k, self.pipeline, self.extent = access, k, pipeline, extent

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, list[Document]]:
        """Returns the passages as `documents`."""
        results = hits(self.kb, query, self.access, self.k, self.pipeline, self.extent)
        made = [Document(id=hit.id, content=hit.text, meta=metadata(hit), score=hit.score) for hit in results]
        return {"documents": made}

    @component.output_types(documents=list[Document])
    async def run_async(self, query: str) -> dict[str, list[Document]]:
        """Does what `run` does, in a thread."""
        return await asyncio.to_thread(self.run, query)
