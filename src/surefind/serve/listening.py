"""Listens on an address and serves an ASGI application there, until a signal comes."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from surefind.errors import UsageError


def bind(host: str, port: int) -> socket.socket:
    """Listens on an address: from now on clients can connect, and wait until the server answers. Raises `UsageError` if
    the address is wrong or taken."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(2048)
    except (OSError, OverflowError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"Cannot listen on {host}:{port} ({why}). Choose another port or address.") from None
    return bound


def url_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def serve(app: Any, bound: socket.socket, started: Callable[[], None], grace: int) -> None:
    """Serves until SIGINT or SIGTERM; requests that are running then have `grace` seconds. Calls `started` when the
    server answers and a signal stops it: before, a signal would be lost."""
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_graceful_shutdown=grace, timeout_keep_alive=75,
        server_header=False, date_header=False, proxy_headers=False, h11_max_incomplete_event_size=65_536,
    )  # fmt: skip
    _Announcing(config, started).run(sockets=[bound])


class _Announcing(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()
