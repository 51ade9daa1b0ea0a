"""Runs an MCP server over stdio, or over streamable HTTP on a loopback address."""

from __future__ import annotations

import ipaddress
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any

import anyio
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette

from surefind.base.errors import UsageError
from surefind.doors import listening

PATH = "/mcp"
"""The path of the server over HTTP."""
LOCAL = ("127.0.0.1", "localhost", "[::1]")


def serve_stdio(server: Server[Any]) -> None:
    """Speaks MCP on stdin and stdout until stdin ends. Whatever else this process prints goes to stderr."""
    if sys.__stdout__ is not None:
        sys.stdout = sys.__stdout__  # the command line's own stream has no buffer to write bytes to
    # Ctrl-C ends the process at once. Python would wait for the thread that reads stdin, which nothing interrupts. A
    # draft that is being written is then not there, and nothing else is lost.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    anyio.run(_over_stdio, server)


async def _over_stdio(server: Server[Any]) -> None:
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())


def serve_http(server: Server[Any], address: str, started: Callable[[str], None]) -> None:
    """Speaks MCP over HTTP on a loopback address, until it is interrupted. Calls `started` with the URL."""
    bound = listen(address)
    listening.serve(http_app(server), bound, lambda: started(listening.url_of(bound) + PATH), grace=3)


def http_app(server: Server[Any], hosts: Sequence[str] = LOCAL) -> Starlette:
    """Returns the HTTP application. It keeps no sessions. The Host and Origin headers must name one of `hosts`, so that
    pages of other sites cannot use it from a browser; without hosts they are not checked. Run its lifespan where it is
    mounted."""
    safety = TransportSecuritySettings(
        enable_dns_rebinding_protection=bool(hosts),
        allowed_hosts=[form for host in hosts for form in (host, f"{host}:*")],
        allowed_origins=[f"http://{form}" for host in hosts for form in (host, f"{host}:*")],
    )
    return server.streamable_http_app(
        streamable_http_path=PATH, stateless_http=True, json_response=True, transport_security=safety
    )


def listen(address: str) -> socket.socket:
    """Listens on HOST:PORT. Raises `UsageError` if the address is wrong, taken, or not a loopback address."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not (port.isascii() and port.isdigit() and int(port[:6]) < 1 << 16) or not host:
        raise UsageError(f"Cannot read the address {address!r}. Write HOST:PORT, such as 127.0.0.1:8765.")
    if not _is_loopback(host):
        raise UsageError(
            f"{address} is not a loopback address, and this server lets everybody in. Use 127.0.0.1:{port}."
        )
    return listening.bind("127.0.0.1" if host == "localhost" else host, int(port))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
