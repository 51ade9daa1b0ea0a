"""What a search by communities tells: the summary of each community that was found, and the hits that belong to it.

Global search of the agentic-knowledge-base study after GraphRAG (Edge et al. 2024): a broad question is answered from
summaries of whole parts of the graph, and not from single passages. The communities are those of the graph of the
passages that the caller may read.
"""

from __future__ import annotations

from dataclasses import dataclass

from surefind.base.access import Access
from surefind.base.types import PAD, Hit, SearchResult
from surefind.engine.retrieve.graph_global import GraphGlobal
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.store.backends.view import LocalView
from surefind.kb import KnowledgeBase


@dataclass(frozen=True)
class CommunityTold:
    """The summary of a community, and the hits that belong to it."""

    summary: str
    hits: tuple[Hit, ...]


def asks_globally(pipeline: Pipeline) -> GraphGlobal | None:
    """The retriever of a pipeline that searches by communities alone."""
    only = pipeline.retrieve[0]
    return only if len(pipeline.retrieve) == 1 and isinstance(only, GraphGlobal) else None


def told(kb: KnowledgeBase, result: SearchResult, retriever: GraphGlobal, access: Access) -> list[CommunityTold]:
    """The communities of the hits, in the order of their best hits; empty if the graph is not on this machine."""
    view = kb.reader().view
    if not isinstance(view, LocalView):
        return []
    places = view.spans().at([int(hit.id, 16) for hit in result.hits]).tolist()
    there = [(place, hit) for place, hit in zip(places, result.hits, strict=True) if place != PAD]
    summaries = retriever.summaries_of(view.index(retriever), [place for place, _ in there], view.mask(access))
    by_summary: dict[str, list[Hit]] = {}
    for summary, (_, hit) in zip(summaries, there, strict=True):
        if summary:
            by_summary.setdefault(summary, []).append(hit)
    return [CommunityTold(summary, tuple(hits)) for summary, hits in by_summary.items()]
