"""A server on the loopback that treats connections as a test tells it to, and counts them.

with serving(good) as line:
    line.port, line.requests, line.connections, line.open
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Serve = Callable[[socket.socket, bytes], bool]
"""Treats a connection whose request (head and body) has come; whether the connection stays open."""


class Line:
    """A server on the loopback that treats connections as it is told."""

    def __init__(self, serve: Serve, context: ssl.SSLContext | None = None, reads: bool = True) -> None:
        self._serve, self._context, self._reads = serve, context, reads
        self.requests: list[bytes] = []
        self.connections = self.open = 0
        """How many there were, and are."""
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = self._listener.accept()
                with self._lock:
                    self.connections += 1
                    self.open += 1
                threading.Thread(target=self._treat, args=(line,), daemon=True).start()

    def _treat(self, line: socket.socket) -> None:
        with contextlib.suppress(OSError), line:
            if self._context:
                line = self._context.wrap_socket(line, server_side=True)
            while not self._reads or (request := _request(line)):
                self.requests.append(request if self._reads else b"")
                if not self._serve(line, self.requests[-1]):
                    break
            line.close()
        with self._lock:
            self.open -= 1


def _request(line: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        part = line.recv(65536)
        if not part:
            return b""
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    sizes = [int(row.split(b":")[1]) for row in head.lower().split(b"\r\n") if row.startswith(b"content-length")]
    while sizes and len(body) < sizes[0]:
        part = line.recv(65536)
        if not part:
            return b""
        body += part
    return head + b"\r\n\r\n" + body


def says(body: bytes) -> Serve:
    """Answers every request with this JSON."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"

    def serve(line: socket.socket, request: bytes) -> bool:
        line.sendall(head.encode() + body)
        return True

    return serve


good = says(b"{}")


@contextmanager
def serving(serve: Serve = good, context: ssl.SSLContext | None = None, reads: bool = True) -> Iterator[Line]:
    line = Line(serve, context, reads)
    try:
        yield line
    finally:
        line.close()


def soon(true: Callable[[], bool]) -> bool:
    """Whether it comes true: what a client did reaches its server a moment later."""
    end = time.monotonic() + 5
    while not true() and time.monotonic() < end:
        time.sleep(0.01)
    return true()
