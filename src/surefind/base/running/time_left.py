"""How long work will still take, from how long its parts took so far."""

from __future__ import annotations

import time
from collections.abc import Callable

_SOON = 90.0
"""Seconds up to which a time is said in seconds."""
_MINUTES = 90.0
"""Minutes up to which a time is said in minutes."""


class TimeLeft:
    """Estimates the seconds that are left of each kind of work."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: dict[str, tuple[float, int]] = {}

    def after(self, what: str, done: int, total: int) -> float | None:
        """Returns the seconds that are left, given how far the work is now; None when it has just begun."""
        now = self._clock()
        began, first = self._began.get(what, (now, done))
        if done < first or what not in self._began:  # it has begun, or begun again
            self._began[what] = now, done
            return None
        return (now - began) / (done - first) * (total - done) if done > first else None


def about(seconds: float) -> str:
    """Says a time as people do: `about 8 minutes`."""
    if seconds <= _SOON:
        return f"about {max(5, round(seconds / 5) * 5)} seconds"
    minutes = seconds / 60
    return f"about {round(minutes)} minutes" if minutes < _MINUTES else f"about {minutes / 60:.1f} hours"
