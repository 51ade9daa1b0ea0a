"""Limits how often a caller may ask, and how many requests that last long it may have at once."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator

from surefind.base.errors import SurefindError
from surefind.base.running.cache import BoundedCache

_MAX_CALLERS = 10_000
"""Callers that are remembered, at most."""


class TooOftenError(SurefindError):
    """The caller asked too often."""


class Rate:
    """A bucket of tokens for each caller, which fills again evenly."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._lock = threading.Lock()
        self._left: BoundedCache[str, tuple[float, float]] = BoundedCache(_MAX_CALLERS)

    def check(self, caller: str) -> None:
        """Counts a request. Raises `TooOftenError` if the caller has none left; a minute's worth may come at once."""
        if not self._per_minute:
            return
        now = time.monotonic()
        with self._lock:
            left, then = self._left.get(caller) or (float(self._per_minute), now)
            left = min(self._per_minute, left + (now - then) * self._per_minute / 60)
            self._left.put(caller, (max(0.0, left - 1), now))
        if left < 1:
            raise TooOftenError(f"A caller may send {self._per_minute} requests a minute. Wait a moment.")


class LongRequests:
    """Requests of a kind that last long, such as streams. They are bounded apart from other requests, which would wait
    behind them."""

    def __init__(self, what: str, setting: str, per_caller: int, in_all: int) -> None:
        """`what` names the requests in messages, and `setting` the limit of one caller."""
        self._what = what
        self._setting = setting
        self._per_caller = per_caller
        self._in_all = in_all
        self._open: Counter[str] = Counter()

    @contextlib.contextmanager
    def held_by(self, caller: str) -> Iterator[None]:
        """Counts a request of a caller until the end of the block. Raises `TooOftenError` if there are too many."""
        if self._open[caller] >= self._per_caller:
            raise TooOftenError(
                f"A caller may have {self._per_caller} {self._what} at once ({self._setting}). Wait until one ends."
            )
        if self._open.total() >= self._in_all:
            raise TooOftenError(f"The server has {self._in_all} {self._what}, which is its limit. Try again soon.")
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]
