"""Derives the graph that some groups may read, and counts what is in it. It stands alone because only
the graph's commands, job and page need what it imports."""

from __future__ import annotations

from typing import Any, cast

from surefind.base.access import Access
from surefind.base.protocols import Retriever
from surefind.base.spec import make
from surefind.engine.graph.communities import Communities, communities
from surefind.engine.graph.derive import Graph
from surefind.engine.graph.index import GraphIndex
from surefind.engine.graph.summaries import labels
from surefind.engine.graph.view import counts
from surefind.engine.search.reader import Searcher
from surefind.engine.store.backends.view import LocalView

GRAPH = cast(Retriever, make("retrieve", "ppr(seed=[bm25])"))
"""A retriever whose index is the graph. Without vectors as seeds, it needs no encoder."""


def graph_of(reader: Searcher, access: Access) -> tuple[Graph, Communities, LocalView]:
    """Derives the graph of the passages that a caller may read, with its communities and the view of the passages. Its
    index must be built."""
    opened = cast(LocalView, reader.view)
    graph = cast(GraphIndex, opened.index(GRAPH)).graph(opened.mask(access))
    return graph, communities(graph), opened


def figures(graph: Graph, partition: Communities, most: int = 20) -> dict[str, Any]:
    """Counts entities, relations and communities, and lists the best connected entities."""
    named = labels(graph)
    order = sorted(range(len(named)), key=lambda entity: (-int(graph.degrees[entity]), entity))[:most]
    top = [{"entity": named[entity], "passages": int(graph.degrees[entity])} for entity in order]
    return {**counts(graph, partition), "best_connected": top}
