"""A time limit for a whole HTTP call: headers and body, however slowly they come.

    client = bounded(httpx.Client())
    with until(time.monotonic() + 60):
        client.post(...)                   # httpx.TimeoutException, 60 s after it began

HTTP clients limit each read by itself. A server that sends a byte now and then is never too slow for one read, so a
call could take for ever. Here every read and write of the connection gets no more time than is left for the call.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import httpcore

_deadline: ContextVar[float] = ContextVar("deadline", default=float("inf"))


@contextlib.contextmanager
def until(deadline: float) -> Iterator[None]:
    """What is read or written within it must be so before this moment of the monotonic clock."""
    token = _deadline.set(deadline)
    try:
        yield
    finally:
        _deadline.reset(token)


def bounded(client: Any) -> Any:
    """This `httpx.Client`, with connections that keep to `until`, straight or through a proxy.

    httpcore takes a network backend, and httpx has no way to hand it one.
    """
    for transport in (client._transport, *filter(None, client._mounts.values())):
        transport._pool._network_backend = _Backend(transport._pool._network_backend)
    return client


class _Backend:
    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.sleep = inner.sleep

    def connect_tcp(self, *where: Any, **options: Any) -> _Stream:
        return _Stream(self._inner.connect_tcp(*where, **options))


class _Stream:
    """A connection whose every step ends when the call must."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.close = inner.close
        self.get_extra_info = inner.get_extra_info

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return bytes(self._inner.read(max_bytes, _left(timeout, httpcore.ReadTimeout)))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _left(timeout, httpcore.WriteTimeout))

    def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None) -> _Stream:
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, _left(timeout, httpcore.ConnectTimeout)))


def _left(timeout: float | None, late: type[Exception]) -> float | None:
    deadline = _deadline.get()
    if deadline == float("inf"):
        return timeout
    left = deadline - time.monotonic()
    if left <= 0:
        raise late
    return left if timeout is None else min(timeout, left)
