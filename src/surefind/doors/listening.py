"""Listens on an address and serves an ASGI application there, until a signal comes. Then the process ends in time,
whatever hangs; and it prints what its threads do on SIGUSR1."""

from __future__ import annotations

import contextlib
import faulthandler
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import uvicorn

from surefind.base.errors import UsageError


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


STOP_SECONDS = 9.0
"""Seconds after a signal to stop in which the process ends."""
_SWITCH_SECONDS = 0.002
"""Seconds for which a thread keeps Python's lock while others want it. The event loop waits for it many times in a
request, so the 5 ms of Python are long. With 0.2 ms, 50 clients get a fifth fewer searches (docs/results/safety.md)."""
_SPARE_SECONDS = 0.5
"""Seconds before the end in which the stacks are printed with Python's lock."""
_STOPS = {signal.SIGINT, signal.SIGTERM}
_STDERR = 2


def serve(app: Any, bound: socket.socket, started: Callable[[], None], grace: int) -> None:
    """Serves until SIGINT or SIGTERM; requests that are running then have `grace` seconds, and the process
    `STOP_SECONDS`. Calls `started` when the server answers and a signal stops it: before, a signal would be lost."""
    sys.setswitchinterval(_SWITCH_SECONDS)
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
            if threading.current_thread() is threading.main_thread():  # only this one gets signals
                _watch_signals()
            self._announce()


def _watch_signals() -> None:
    """Lets SIGUSR1 print the stacks of all threads, and ends the process `STOP_SECONDS` after a signal to stop. What
    handles a signal is run by the main thread, which may hang. So a thread is told of signals through a socket, and
    passes them on to the event loop, which was told before.

    The thread prints with Python's lock, so that no stack changes meanwhile: read without it, a stack that changes has
    ended the process. Only where something else keeps the lock until the end are the stacks read without it."""
    signal.signal(signal.SIGUSR1, lambda number, frame: None)
    told, tells = socket.socketpair()
    tells.setblocking(False)
    before = signal.set_wakeup_fd(tells.fileno(), warn_on_full_buffer=False)
    loop = os.dup(before) if before >= 0 else None  # the event loop closes its own

    def watch() -> None:
        with told, tells:
            ends = math.inf
            while (left := ends - time.monotonic()) > 0:
                told.settimeout(None if left == math.inf else left)
                try:
                    numbers = told.recv(64)
                except TimeoutError:
                    break
                if loop is not None:
                    with contextlib.suppress(OSError):
                        os.write(loop, numbers)
                if signal.SIGUSR1 in numbers:
                    faulthandler.dump_traceback(_STDERR, all_threads=True)
                if ends == math.inf and not _STOPS.isdisjoint(numbers):
                    ends = time.monotonic() + STOP_SECONDS - _SPARE_SECONDS
                    faulthandler.dump_traceback_later(STOP_SECONDS, exit=True, file=_STDERR)
            faulthandler.dump_traceback(_STDERR, all_threads=True)
            os._exit(1)

    threading.Thread(target=watch, name="surefind-signals", daemon=True).start()
