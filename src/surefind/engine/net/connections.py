"""Keeps connections open between calls: threads share them, and their owner closes them.

    connections = Connections(make_client)
    with connections.client() as client:
        client.post(...)
    connections.close()        # at once, or after the last running call

Stages are values that anyone may make again, so the whole process shares their connections (`@shared`) and closes them
together (`close_shared`). The next call opens them again.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeVar


class Closable(Protocol):
    def close(self) -> None: ...


class SharedClient:
    """One client, made for the first call. Closing it does not break running calls of other threads."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._lent: _Lent | None = None

    @contextlib.contextmanager
    def client(self) -> Iterator[Any]:
        """Lends the client for one call."""
        with self._lock:
            if self._lent is None:
                self._lent = _Lent(self._make())
            lent = self._lent
            lent.calls += 1
        try:
            yield lent.client
        finally:
            with self._lock:
                lent.calls -= 1
                last = not lent.calls and lent is not self._lent  # closed in the meantime
            if last:
                lent.client.close()

    def close(self) -> None:
        with self._lock:
            lent, self._lent = self._lent, None
            idle = lent is not None and not lent.calls
        if lent is not None and idle:
            lent.client.close()


class _Lent:
    def __init__(self, client: Any) -> None:
        self.client = client
        self.calls = 0


Given = ParamSpec("Given")
Made = TypeVar("Made", bound=Closable)
_shared: list[dict[Any, Any]] = []


def shared(make: Callable[Given, Made]) -> Callable[Given, Made]:
    """Like `functools.cache`, for objects that hold connections. Each is made once, even if many threads ask for it at
    the same time, until `close_shared` closes and forgets it. A call that already has the object may go on using it."""
    made: dict[Any, Made] = {}
    lock = threading.Lock()
    _shared.append(made)

    @wraps(make)
    def get(*args: Given.args, **kwargs: Given.kwargs) -> Made:
        key = (args, *kwargs.items())
        with lock:
            if key not in made:
                made[key] = make(*args, **kwargs)
            return made[key]

    return get


def close_shared() -> None:
    """Closes the connections that encoders and rerankers of this process keep open."""
    for made in _shared:
        for key in list(made):
            thing = made.pop(key, None)  # another thread may be closing too
            if thing is not None:
                thing.close()
