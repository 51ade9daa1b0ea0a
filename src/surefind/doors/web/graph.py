"""`/graph`: the graph of the entities and passages that the visitor may read.

The graph of a caller is derived from the passages that the caller may read, and a page of it is kept for each set of
groups, for one generation. The page draws the best connected entities, as many as fit into its size.
"""

from __future__ import annotations

import gzip
from typing import Any
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Request
from starlette.responses import Response

from surefind.base.access import Access, Caller
from surefind.base.errors import NothingIndexedError
from surefind.base.running import BoundedCache
from surefind.doors.http.service import Served, Service
from surefind.doors.web.page import back_to, page, with_own_scripts
from surefind.doors.web.reports import compressed
from surefind.engine.graph.summaries import summarise
from surefind.engine.graph.view import render, view
from surefind.engine.search.reader import Searcher
from surefind.kb.graph import GRAPH, figures, graph_of

router = APIRouter(include_in_schema=False)
_MAX_MAPS = 16
"""Maps that are kept for a generation, at most."""
_BYTES = 300_000
"""The size of a map on its way to the browser, at most: compressed."""
_MAX_DRAWN = 2_000
"""Entities that are drawn, at most."""
_MAX_LISTED = 60
"""Entities that the page without a script lists."""
Drawn = tuple[str, dict[str, Any]]
"""The map as a page, and the figures of the graph."""
_pages: WeakKeyDictionary[Searcher, BoundedCache[frozenset[str], Drawn]] = WeakKeyDictionary()
"""By reader: a new generation, or new access rules, come with a new reader."""


@router.get("/graph")
async def graph(request: Request, service: Served) -> Response:
    """What is best connected, as a list, and the way to the map."""
    caller = await service.caller(request, "read")

    def read() -> Response:
        found = _found(service, caller)
        return page(caller, "graph.html", title="Graph", here="graph", found=found[1] if found else None)

    return await service.work_apart("report", request, caller, read)


@router.get("/graph/map")
async def map_page(request: Request, service: Served) -> Response:
    """The map of the entities, drawn by the page's own script."""
    caller = await service.caller(request, "read")

    def render() -> Response:
        found = _found(service, caller)
        if found is None:
            return back_to(request, "/graph")
        return compressed(request, with_own_scripts(found[0], "/graph", "Graph", "top"))

    return await service.work_apart("report", request, caller, render)


@router.post("/graph")
async def build(request: Request, service: Served) -> Response:
    """Builds the graph's index. Later syncs keep it only if a pipeline uses it."""
    caller = await service.caller(request, "review")
    job = await service.jobs.start(caller, "graph", {}, "", "/graph")
    return back_to(request, f"/jobs/{job.id}")


def _found(service: Service, caller: Caller) -> Drawn | None:
    """Returns the map and the figures of a caller's graph; None if its index is not built."""
    try:
        reader = service.reader()
    except NothingIndexedError:
        return None
    if reader.missing([GRAPH]):
        return None
    access = caller.access()
    pages = _pages.setdefault(reader, BoundedCache(_MAX_MAPS))
    return pages.get(access.groups) or pages.put(access.groups, _drawn(reader, access))


def _drawn(reader: Searcher, access: Access) -> Drawn:
    graph, grouped, opened = graph_of(reader, access)
    ids = opened.spans().ids
    summaries = summarise(graph, grouped)
    most = _MAX_DRAWN
    while True:
        data = view(graph, grouped, summaries, lambda at: opened.chunks(ids[list(at)].tolist(), access), most)
        html = render(data)
        size = len(gzip.compress(html.encode(), 1))
        if size <= _BYTES or most <= 1:
            return html, {**figures(graph, grouped, _MAX_LISTED), "drawn": len(data["nodes"])}
        most = max(1, min(most - 1, int(most * _BYTES / size * 0.95)))
