"""Collects what a stage reports and spends while it runs, for its entry in the trace.

    with collecting() as collected:          # the pipeline, around a stage
        note("reranked 12 of 20 …")      # anywhere below it
    collected.text, collected.calls

Outside `collecting`, notes and costs are dropped. The collector is in a `ContextVar`: work that a stage hands to
threads is collected if it runs in a copy of the context (`contextvars.copy_context().run`).

How long work will still take, from how long its parts took so far.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass
class CollectedNotes:
    """The notes and costs collected so far."""

    notes: list[str] = field(default_factory=list)
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float = 0.0
    waited: float = 0.0
    """Seconds that cached answers took when they were first made; benchmarks add them to the times they measure."""
    without: int = 0
    """Queries (or chunks) for which a stage used its fallback."""
    stood_in: int = 0
    """Calls that the fallback model answered instead of the chosen one."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @property
    def text(self) -> str:
        return "; ".join(self.notes)


FELL_BACK = "fell back: "
"""Begins the note of an optional stage that failed, so that the ranking before it was used."""

_heard: ContextVar[CollectedNotes | None] = ContextVar("collected", default=None)


@contextlib.contextmanager
def collecting() -> Iterator[CollectedNotes]:
    """Collects all notes and costs inside the block, except those that an inner `collecting` takes."""
    token = _heard.set(collected := CollectedNotes())
    try:
        yield collected
    finally:
        _heard.reset(token)


def note(text: str) -> None:
    """Adds a note to the trace entry of the running stage. The same note is added only once."""
    collected = _heard.get()
    if collected is not None:
        with collected._lock:
            if text not in collected.notes:
                collected.notes.append(text)


def count_without_model(count: int) -> None:
    """Counts queries (or chunks) for which the running stage used its fallback; benchmarks report them."""
    collected = _heard.get()
    if collected is not None:
        with collected._lock:
            collected.without += count


def stood_in(count: int) -> None:
    """Counts calls of the running stage that the fallback model answered; benchmarks report them."""
    collected = _heard.get()
    if collected is not None:
        with collected._lock:
            collected.stood_in += count


def spend(calls: int, tokens_in: int, tokens_out: int, dollars: float) -> None:
    """Adds to the cost of the running stage."""
    collected = _heard.get()
    if collected is not None:
        with collected._lock:
            collected.calls += calls
            collected.tokens_in += tokens_in
            collected.tokens_out += tokens_out
            collected.dollars += dollars


def wait(seconds: float) -> None:
    """Adds seconds that the running stage would have taken without a cache."""
    collected = _heard.get()
    if collected is not None:
        with collected._lock:
            collected.waited += seconds


def pass_on(inner: CollectedNotes, waited: float) -> None:
    """Adds what an inner `collecting` collected to the outer one; `waited` is how long the calls took in parallel."""
    for text in inner.notes:
        note(text)
    count_without_model(inner.without)
    stood_in(inner.stood_in)
    spend(inner.calls, inner.tokens_in, inner.tokens_out, inner.dollars)
    wait(waited)


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
