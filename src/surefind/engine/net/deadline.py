"""Limits the time of a whole HTTP call: headers and body, however slowly they arrive.

    client = bounded_client(connections=4, from_environment=True)
    with until(time.monotonic() + 60):
        client.post(...)                   # httpx.TimeoutException, 60 s after it began

httpx limits each read separately. A server that sends a byte now and then is never too slow for one read, so a call
could take forever. httpx hands a new connection to the `trace` hook of the request; there its reads and writes are made
to get only the time that is left for the call. The connection keeps that, so later calls on it are limited, too. An
asynchronous client could be cancelled instead, but takes twice the time of a call.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import time
from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache
from typing import Any

import httpcore
import httpx

from surefind.base.errors import MissingPartError, UsageError
from surefind.base.running.workers import check_stopped

_PIECE = 16_384
"""Bytes per write. Each part of one write gets the full timeout, so a server that accepts a few bytes now and then
could delay a large write for long."""
_LOOK_SECONDS = 0.25
"""Seconds after which a read looks whether anybody still waits for the answer."""
_deadline: ContextVar[float] = ContextVar("deadline", default=float("inf"))


@contextlib.contextmanager
def until(deadline: float) -> Iterator[None]:
    """Makes every read and write inside the block end before this moment of the monotonic clock."""
    token = _deadline.set(deadline)
    try:
        yield
    finally:
        _deadline.reset(token)


def bounded_client(connections: int, from_environment: bool) -> httpx.Client:
    """Makes a client that obeys `until` and keeps `connections` open between requests. With `from_environment` it
    follows HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE and SSL_CERT_DIR, as httpx does."""
    try:
        return httpx.Client(
            verify=_certificates(from_environment, *map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR"))),
            trust_env=from_environment,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=connections),
            event_hooks={"request": [_bound]},
        )
    except ImportError:
        raise MissingPartError(
            "A SOCKS proxy in the environment needs the package socksio. Install it: pip install 'httpx[socks]'."
        ) from None
    except (ValueError, httpx.InvalidURL):  # httpx may repeat the address, which may contain a password
        raise UsageError(
            "A proxy in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY cannot be used. Write it like http://HOST:PORT."
        ) from None


@cache
def _certificates(from_environment: bool, *_places: str | None) -> ssl.SSLContext:
    """Reads the certificates once, which takes 20 ms; again if the environment names other places."""
    return httpx.create_ssl_context(trust_env=from_environment)


def _bound(request: httpx.Request) -> None:
    request.extensions["trace"] = _trace


def _trace(event: str, info: dict[str, Any]) -> None:
    if event.endswith(".connect_tcp.started"):
        _left(None, httpx.ConnectTimeout)
    elif event.endswith(".connect_tcp.complete"):
        _limit(info["return_value"])


def _limit(stream: Any) -> Any:
    """Gives every operation of a connection only the time that is left for the call."""
    read, write, start_tls = stream.read, stream.write, stream.start_tls

    def limited_read(max_bytes: int, timeout: float | None = None) -> Any:
        end = time.monotonic() + (_left(timeout, httpx.ReadTimeout) or float("inf"))
        while True:
            check_stopped()
            left = end - time.monotonic()
            try:
                return read(max_bytes, max(0.001, min(left, _LOOK_SECONDS)))
            except (httpcore.ReadTimeout, ssl.SSLWantReadError):
                if left <= _LOOK_SECONDS:
                    raise

    def limited_write(buffer: bytes, timeout: float | None = None) -> None:
        for at in range(0, len(buffer), _PIECE):
            write(buffer[at : at + _PIECE], _left(timeout, httpx.WriteTimeout))

    def limited_tls(
        ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> Any:
        return _limit(start_tls(ssl_context, server_hostname, _left(timeout, httpx.ConnectTimeout)))

    stream.read, stream.write, stream.start_tls = limited_read, limited_write, limited_tls
    return stream


def _left(timeout: float | None, late: type[httpx.TimeoutException]) -> float | None:
    deadline = _deadline.get()
    if deadline == float("inf"):
        return timeout
    left = deadline - time.monotonic()
    if left <= 0:
        raise late("the time for the call is over")
    return left if timeout is None else min(timeout, left)
