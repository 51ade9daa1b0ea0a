"""Limits the time of a whole HTTP call: headers and body, however slowly they arrive.

    with until(time.monotonic() + 60):
        client.post(...)                   # httpx.TimeoutException, 60 s after it began

HTTP clients limit each read separately. A server that sends a byte now and then is never too slow for one read, so a
call could take forever. Here every read and write of the connection gets only the time that is left for the call.
`surefind.net.transport` makes clients with such connections.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from ssl import SSLContext
from typing import Any

import httpcore

_PIECE = 16_384
"""Bytes per write. httpcore gives each part of one write the full timeout, so a server that accepts a few bytes now and
then could delay a large write for long."""
_deadline: ContextVar[float] = ContextVar("deadline", default=float("inf"))


@contextlib.contextmanager
def until(deadline: float) -> Iterator[None]:
    """Makes every read and write inside the block end before this moment of the monotonic clock."""
    token = _deadline.set(deadline)
    try:
        yield
    finally:
        _deadline.reset(token)


class BoundedBackend(httpcore.NetworkBackend):
    """Opens connections whose every operation respects the deadline of the call."""

    def __init__(self) -> None:
        self._inner = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._inner.connect_tcp(host, port, left, local_address, socket_options))


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for at in range(0, len(buffer), _PIECE):
            self._inner.write(buffer[at : at + _PIECE], _left(timeout, httpcore.WriteTimeout))

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, _left(timeout, httpcore.ConnectTimeout)))

    def close(self) -> None:
        self._inner.close()

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _left(timeout: float | None, late: type[Exception]) -> float | None:
    deadline = _deadline.get()
    if deadline == float("inf"):
        return timeout
    left = deadline - time.monotonic()
    if left <= 0:
        raise late
    return left if timeout is None else min(timeout, left)
