"""Collects what a stage reports and spends while it runs, for its entry in the trace.

    with collecting() as collected:          # the pipeline, around a stage
        note("reranked 12 of 20 …")      # anywhere below it
    collected.text, collected.calls

Outside `collecting`, notes and costs are dropped. The collector is in a `ContextVar`: work that a stage hands to
threads is collected if it runs in a copy of the context (`contextvars.copy_context().run`).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
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
