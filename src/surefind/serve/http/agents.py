"""`/mcp`: the tools for agents, with the rights of the caller, beside the other routes."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from surefind.access import Access
from surefind.serve.auth.caller import Caller
from surefind.serve.http.service import Service
from surefind.serve.mcp.run import http_app
from surefind.serve.mcp.server import make_server

_caller: ContextVar[Caller] = ContextVar("caller")


class Agents:
    """An ASGI application that knows who calls before it lets a request through."""

    def __init__(self, service: Service) -> None:
        self._service = service
        server = make_server(service.kb, _access, lambda: _caller.get().may("write"), lambda: _caller.get().name)
        self._inner: Starlette = http_app(server, hosts=())  # the guard has checked the host

    def running(self) -> AbstractAsyncContextManager[object]:
        """The lifespan of the tools, which that of the application must contain."""
        return self._inner.router.lifespan_context(self._inner)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = await self._service.caller(Request(scope), "read")
        before = _caller.set(found)
        try:
            await self._inner(scope, receive, send)
        finally:
            _caller.reset(before)


def _access() -> Access:
    return _caller.get().access()
