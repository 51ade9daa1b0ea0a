"""A LangChain retriever.

    retriever = SurefindRetriever(kb="kb/", access=Access.of("staff"), k=5)
    documents = retriever.invoke("When do domestic wires leave?")

`access` has no default: make a retriever for each caller. They can share one `KnowledgeBase`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import InstanceOf, field_validator

from surefind.adapters._shared import hits, metadata, opened
from surefind.base.access import Access
from surefind.engine.search.hits import Extent
from surefind.kb import KnowledgeBase

if TYPE_CHECKING:
    from surefind.engine.search.pipeline import Pipeline

    PipelineLike = str | Pipeline | None
else:
    PipelineLike = Any  # pydantic would look into the stages of a pipeline


class SurefindRetriever(BaseRetriever):
    """Finds passages of a knowledge base. `ainvoke` searches in a thread."""

    kb: InstanceOf[KnowledgeBase]
    """The knowledge base, or its folder."""
    access: InstanceOf[Access]
    """What the caller may read."""
    k: int | None = None
    """How many passages; None for the number in the settings."""
    pipeline: PipelineLike = None
    """A name or a spec; None for the default pipeline."""
    extent: InstanceOf[Extent] = Extent()
    """How much text a passage has."""

    @field_validator("kb", mode="before")
    @classmethod
    def _open(cls, kb: Any) -> Any:
        return opened(kb) if isinstance(kb, str | Path) else kb

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        results = hits(self.kb, query, self.access, self.k, self.pipeline, self.extent)
        return [Document(page_content=hit.text, id=hit.id, metadata=metadata(hit)) for hit in results]
