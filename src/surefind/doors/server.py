"""Runs the server: says where it listens and who may call, answers, and stops without dropping a request.

Puts the application together: routes, errors, limits and the pages of its documentation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any

from anyio import to_thread
from fastapi import FastAPI
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from surefind import __version__
from surefind.doors import listening
from surefind.doors.auth.gatekeeper import LOOPBACK
from surefind.doors.auth.keys import LASTS, FirstKey, Keys
from surefind.doors.http.agents import Agents
from surefind.doors.http.guard import Guard
from surefind.doors.http.problems import handle_problems
from surefind.doors.http.routes import documents, drafts, operate, reports, search
from surefind.doors.http.search_workers import SearchWorkers
from surefind.doors.http.service import Service
from surefind.doors.web import documents as documents_pages
from surefind.doors.web import drafts as drafts_pages
from surefind.doors.web import graph, label, review, settings, signing
from surefind.doors.web import reports as reports_pages
from surefind.doors.web import search as search_pages
from surefind.doors.web.page import as_page
from surefind.kb import KnowledgeBase
from surefind.kb.settings.serve import ServeSettings, serve_settings

PAGES = tuple(
    pages.router
    for pages in (
        signing,
        search_pages,
        documents_pages,
        drafts_pages,
        review,
        label,
        reports_pages,
        graph,
        settings,
    )
)
"""The routes of the pages."""
_ABOUT = """Finds the right passage among your documents.

Send an API key or a token with every request: `Authorization: Bearer …`. A server on this machine without keys needs
none. Errors are `application/problem+json`. Every answer has the header `X-Request-Id`."""


def create_app(
    kb: KnowledgeBase,
    settings: ServeSettings | None = None,
    groups: Iterable[str] = (),
    first_key: FirstKey | None = None,
    workers: SearchWorkers | None = None,
) -> ASGIApp:
    """Returns the ASGI application. `groups` are the groups of callers on an open server, `first_key` knows the link
    that makes the first key, and `workers` are processes that search; they end with the application."""
    chosen = settings or serve_settings(kb.settings.serve)
    service = Service(kb, chosen, groups, first_key, workers)

    agents = _agents(service)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        warming = asyncio.create_task(_begin(service, app))
        yield
        warming.cancel()
        if agents:
            await agents.close()
        await service.jobs.close()
        if workers:
            await to_thread.run_sync(workers.close)

    app = FastAPI(
        title="Surefind",
        version=__version__,
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    routers = (
        search.router,
        documents.router,
        drafts.router,
        reports.router,
        reports.jobs_router,
        search.feedback_router,
        operate.router,
        operate.manual_router,
    )
    for router in (*routers, *PAGES):
        app.include_router(router)
    if agents:
        app.router.routes.append(Route("/mcp", endpoint=agents, include_in_schema=False))
    handle_problems(app)
    hosts = {*LOOPBACK, *chosen.allowed_hosts} if service.gatekeeper.is_open else set(chosen.allowed_hosts)
    upload = int(kb.settings.limits.file_mb * 1e6)

    async def present(*about: Any) -> Response:
        return await service.work(lambda: as_page(*about))

    seconds = kb.settings.limits.seconds
    return Guard(app, chosen, hosts, upload, service.metrics, present, seconds, service.caller, service.name)


async def _begin(service: Service, app: FastAPI) -> None:
    await service.work(service.warm)
    await service.work(lambda: operate.schema_of(app))  # is kept; it takes a second
    await to_thread.run_sync(service.remove_damaged)
    await service.complete()


def _agents(service: Service) -> Agents | None:
    """Returns the tools for agents; None if their package is not installed."""
    return Agents(service) if find_spec("mcp") else None


_GRACE = 4
"""Seconds that running requests have after a signal to stop."""


def serve(kb: KnowledgeBase, settings: ServeSettings, groups: Iterable[str], say: Callable[[str], None]) -> None:
    """Serves until a signal comes. `say` gets the first lines, once the server answers."""
    keys = Keys(kb.data)
    first_key = FirstKey(keys)
    workers = SearchWorkers(kb.folder, settings.workers, settings.timeout) if settings.workers > 1 else None
    app = create_app(kb, settings, groups, first_key, workers)
    bound = listening.bind(settings.host, settings.port)

    def started() -> None:
        url = listening.url_of(bound)
        say(f"Serving {kb.folder} on {url}  (documentation: /docs)")
        if settings.oidc or keys.any():
            say("Callers need an API key (surefind keys)" + (" or a token." if settings.oidc else "."))
            return
        say(_open_to(sorted(groups)))
        say(f"To know who calls, make the first key. This link works once, for {LASTS // 3600} hours:")
        say(f"  {url}{first_key.link()}")

    listening.serve(app, bound, started, _GRACE)


def _open_to(groups: list[str]) -> str:
    """Says what callers of a server without keys may do."""
    read = "every document" if "*" in groups else "public documents" + "".join(f" and those of {g}" for g in groups)
    return f"Open to every user of this machine, who can read {read} and upload drafts."
