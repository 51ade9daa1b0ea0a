"""`/mcp`: the tools for agents, with the rights of the caller, beside the other routes.

The MCP package takes most of a second to load, so it is loaded when the first agent calls, not when the server starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from surefind.base.access import Caller
from surefind.doors.http.drafting import publish
from surefind.doors.http.service import Heavy, Service

if TYPE_CHECKING:
    from surefind.doors.mcp.answers import ToolReply

_request: ContextVar[Request] = ContextVar("request")
_KINDS: dict[str, Heavy] = {"propose": "upload", "drafts": "difference", "review": "difference"}
"""Tools that take as long as these requests."""


class Agents:
    """An ASGI application that knows who calls before it lets a request through."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._tools: ASGIApp | None = None
        self._loading = asyncio.Lock()
        self._over = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        await self._service.caller(request, "read")
        tools = self._tools or await self._load()
        before = _request.set(request)
        try:
            await tools(scope, receive, send)
        finally:
            _request.reset(before)

    async def close(self) -> None:
        """Ends the tools, if an agent has used them."""
        self._over.set()
        if self._running:
            await self._running

    async def _load(self) -> ASGIApp:
        async with self._loading:
            if self._tools is None:
                app = await self._service.work(self._made)
                ready = asyncio.Event()
                self._running = asyncio.create_task(self._live(app, ready))
                await ready.wait()
                self._tools = app
        return self._tools

    def _made(self) -> ASGIApp:
        from surefind.doors.mcp.server import http_app, make_server

        server = make_server(self._service.kb, _sender, self._publish, self._run)
        return http_app(server, hosts=())  # the guard has checked the host

    async def _run(self, caller: Caller, tool: str, do: Callable[[], ToolReply]) -> ToolReply:
        """Runs a tool where a request of its kind has its place."""
        service, request = self._service, _request.get()
        if tool == "search":
            effort = service.kb.settings.effort()
            return await service.search_apart(request, caller, service.kb.pipeline(), effort, do)
        if tool == "ask":
            return await service.answer_apart(request, caller, service.kb.pipeline(), False, do)
        if tool in _KINDS:
            return await service.work_apart(_KINDS[tool], request, caller, do)
        return await service.work(do)

    async def _publish(self, caller: Caller, number: int, revision: int | None) -> ToolReply:
        from surefind.doors.mcp.drafts import publishing

        caller.require("review")
        job = await publish(self._service, caller, number, revision)
        return publishing(await self._service.work(lambda: self._service.kb.drafts.store.get(number)), job.id)

    async def _live(self, app: ASGIApp, ready: asyncio.Event) -> None:
        """Holds the lifespan of the tools open: a task of its own begins and ends it."""
        async with app.router.lifespan_context(app):  # type: ignore[attr-defined]
            ready.set()
            await self._over.wait()


def _sender() -> Caller:
    """Returns who sent the request that is being answered."""
    caller: Caller = _request.get().state.caller
    return caller
