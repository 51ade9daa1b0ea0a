"""Limits how often a caller may ask: a bucket of tokens for each caller, which fills again evenly."""

from __future__ import annotations

import threading
import time

from surefind.errors import SurefindError

_MOST = 10_000
"""Callers that are remembered, at most."""


class TooOftenError(SurefindError):
    """The caller asked too often."""


class Rate:
    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}

    def check(self, caller: str) -> None:
        """Counts a request. Raises `TooOftenError` if the caller has none left; a minute's worth may come at once."""
        if not self._per_minute:
            return
        now = time.monotonic()
        with self._lock:
            left, then = self._left.pop(caller, (float(self._per_minute), now))
            left = min(self._per_minute, left + (now - then) * self._per_minute / 60)
            self._left[caller] = (max(0.0, left - 1), now)
            if len(self._left) > _MOST:
                self._left.pop(next(iter(self._left)))
        if left < 1:
            raise TooOftenError(f"A caller may send {self._per_minute} requests a minute. Wait a moment.")
