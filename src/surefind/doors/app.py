"""Puts the application together: routes, errors, limits and the pages of its documentation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any

from anyio import to_thread
from fastapi import FastAPI
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from surefind import __version__
from surefind.doors.auth.first_key import FirstKey
from surefind.doors.auth.gatekeeper import LOOPBACK
from surefind.doors.http.agents import Agents
from surefind.doors.http.guard import Guard
from surefind.doors.http.problems import handle_problems
from surefind.doors.http.routes import ask, documents, drafts, facets, feedback, health, jobs, manual, reports, search
from surefind.doors.http.search_workers import SearchWorkers
from surefind.doors.http.service import Service
from surefind.doors.web.problems import as_page
from surefind.doors.web.routers import ROUTERS
from surefind.kb import KnowledgeBase
from surefind.kb.settings.serve import ServeSettings, serve_settings

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
    for room in (search, facets, ask, documents, drafts, reports, jobs, feedback, health, manual):
        app.include_router(room.router)
    for router in ROUTERS:
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
    await service.work(lambda: manual.schema_of(app))  # is kept; it takes a second
    await service.complete()


def _agents(service: Service) -> Agents | None:
    """Returns the tools for agents; None if their package is not installed."""
    return Agents(service) if find_spec("mcp") else None
