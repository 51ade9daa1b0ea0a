"""What a stage says and spends while it runs: collected around each stage, shown in its entry of the trace.

    with collecting() as heard:          # the pipeline, around a stage
        note("reranked 12 of 20 …")      # anywhere below it
    heard.text, heard.calls

Outside a run nobody listens and both calls do nothing. The collector stands in a `ContextVar`: work that a stage hands
to threads is heard if it runs in a copy of the context (`contextvars.copy_context().run`).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass
class Heard:
    """What was said and spent so far."""

    notes: list[str] = field(default_factory=list)
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float = 0.0
    waited: float = 0.0
    """Seconds that answers from a cache took when they were asked for: benchmarks add them to what they measure."""
    without: int = 0
    """Queries (or chunks) that a stage could not treat as it should, and treated as it does then."""
    stood_in: int = 0
    """Calls that the fallback answered for the model that was asked."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @property
    def text(self) -> str:
        return "; ".join(self.notes)


FELL_BACK = "fell back: "
"""Begins the note of an optional stage that failed, and left the ranking before it."""

_heard: ContextVar[Heard | None] = ContextVar("heard", default=None)


@contextlib.contextmanager
def collecting() -> Iterator[Heard]:
    """Listens to everything below it that no inner `collecting` hears."""
    token = _heard.set(heard := Heard())
    try:
        yield heard
    finally:
        _heard.reset(token)


def note(text: str) -> None:
    """Adds to the trace entry of the stage now running. A note that was already made is not repeated."""
    heard = _heard.get()
    if heard is not None:
        with heard._lock:
            if text not in heard.notes:
                heard.notes.append(text)


def went_without(count: int) -> None:
    """Adds to how many queries the stage now running had to do without what it wanted: a benchmark reports them."""
    heard = _heard.get()
    if heard is not None:
        with heard._lock:
            heard.without += count


def stood_in(count: int) -> None:
    """Adds to how many calls of the stage now running another model answered: a benchmark reports them."""
    heard = _heard.get()
    if heard is not None:
        with heard._lock:
            heard.stood_in += count


def spend(calls: int, tokens_in: int, tokens_out: int, dollars: float) -> None:
    """Adds to what the stage now running has cost."""
    heard = _heard.get()
    if heard is not None:
        with heard._lock:
            heard.calls += calls
            heard.tokens_in += tokens_in
            heard.tokens_out += tokens_out
            heard.dollars += dollars


def wait(seconds: float) -> None:
    """Adds time that the stage now running would have taken without a cache."""
    heard = _heard.get()
    if heard is not None:
        with heard._lock:
            heard.waited += seconds


def pass_on(inner: Heard, waited: float) -> None:
    """What an inner `collecting` heard, told to the outer one; `waited` is how long all of it took side by side."""
    for text in inner.notes:
        note(text)
    went_without(inner.without)
    stood_in(inner.stood_in)
    spend(inner.calls, inner.tokens_in, inner.tokens_out, inner.dollars)
    wait(waited)
