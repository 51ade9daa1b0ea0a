"""Derives the graph that some groups may read, and counts what is in it."""

from __future__ import annotations

from typing import Any, cast

from surefind.access import Access
from surefind.graph.communities import Communities, communities
from surefind.graph.derive import Graph
from surefind.graph.index import GraphIndex
from surefind.graph.labels import labels
from surefind.graph.view import counts
from surefind.kb import KnowledgeBase
from surefind.protocols import OnProgress, Retriever
from surefind.spec import make
from surefind.store.backends.view import LocalView

_TOP = 20
"""Entities that are listed."""


def graph_of(kb: KnowledgeBase, access: Access, report: OnProgress | None) -> tuple[Graph, Communities, LocalView]:
    """Derives the graph of the passages that a caller may read, and builds its index if that is missing. It uses no
    similarity of vectors, so it needs no encoder."""
    retriever = cast(Retriever, make("retrieve", "ppr(seed=[bm25])"))
    kb.build_for([retriever], report=report)
    opened = cast(LocalView, kb.reader().view)
    graph = cast(GraphIndex, opened.index(retriever)).graph(opened.mask(access))
    return graph, communities(graph), opened


def figures(graph: Graph, found: Communities) -> dict[str, Any]:
    """Counts entities, relations and communities, and lists the best connected entities."""
    named = labels(graph)
    order = sorted(range(len(named)), key=lambda entity: (-int(graph.degrees[entity]), entity))[:_TOP]
    top = [{"entity": named[entity], "passages": int(graph.degrees[entity])} for entity in order]
    return {**counts(graph, found), "best_connected": top}
