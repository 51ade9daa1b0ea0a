"""What a job tells the server while it runs, a line of JSON each: its progress, messages for the owner, and its end.

Turns reports of progress into events: for the log of a command, and for the server that runs a job.

Turns values of ours into what JSON can hold.
"""

from __future__ import annotations

import dataclasses
import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from surefind.base.running import TimeLeft, about


def plain(value: Any) -> Any:
    """Returns what JSON holds of a value of ours: the fields of a dataclass, the text of a path, a list."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Path):
        return str(value)
    return dict(value) if hasattr(value, "keys") else list(value)


@dataclass(frozen=True)
class ProgressEvent:
    """How far some work is."""

    what: str
    """The kind of work, such as FilePreparer."""
    state: Literal["started", "running", "finished"]
    done: int
    total: int
    seconds: float
    """Since the work began."""
    seconds_left: float | None = None
    """About how long it still takes; None at the beginning and at the end."""

    def __str__(self) -> str:
        if self.state == "started":
            return f"{self.what}: started, {self.total:,} to do"
        if self.state == "finished":
            return f"{self.what}: finished, {self.total:,} in {self.seconds:.1f} s"
        left = f", {about(self.seconds_left)} left" if self.seconds_left is not None else ""
        return f"{self.what}: {self.done:,} of {self.total:,} after {self.seconds:.0f} s{left}"


@dataclass(frozen=True)
class Notice:
    """Something that the owner should know."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Result:
    """What a job made. More progress may follow."""

    value: Any


@dataclass(frozen=True)
class Failure:
    """Why a job ended without a result."""

    kind: str
    """The name of the error's class."""
    message: str


Event = ProgressEvent | Notice | Result | Failure
_CLASSES: dict[str, type[Event]] = {kind.__name__: kind for kind in (ProgressEvent, Notice, Result, Failure)}


def written(event: Event) -> str:
    """Writes an event as a line."""
    fields = {"value": event.value} if isinstance(event, Result) else asdict(event)
    return json.dumps({"event": type(event).__name__, **fields}, default=plain)


def read(line: bytes) -> Event:
    """Reads the event of a line."""
    fields = json.loads(line)
    return _CLASSES[fields.pop("event")](**fields)


SECONDS_BETWEEN = 10.0
"""Seconds between two events about the same kind of work; $SUREFIND_PROGRESS_SECONDS replaces it."""

LONG = 60.0
"""Seconds from which on the time left is said as soon as it can be told."""
_TELLING = 3.0
"""Seconds of work after which the time left can be told."""


@dataclass
class _Work:
    done: int
    total: int
    started: float
    said: float
    """Time of the last event about this work."""
    reported: float
    """Time of the last report from this work."""
    told: bool = False
    """Whether something was said since it started."""


def _seconds_between() -> float:
    try:
        return float(os.environ.get("SUREFIND_PROGRESS_SECONDS", SECONDS_BETWEEN))
    except ValueError:
        return SECONDS_BETWEEN


@dataclass
class ProgressLog:
    """Says when each kind of work starts and finishes, and now and then how far it is; of long work, how long it takes
    as soon as that is known. Thread-safe.

    Work is finished when it has reported all of its parts and other work reports: an index first reports its vectors,
    then itself.
    """

    say: Callable[[ProgressEvent], None]
    clock: Callable[[], float] = time.monotonic
    between: float = field(default_factory=_seconds_between)
    _works: dict[str, _Work] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._left = TimeLeft(self.clock)

    def report(self, what: str, done: int, total: int) -> None:
        with self._lock:
            now = self.clock()
            seconds_left = self._left.after(what, done, total)
            self._finish(lambda other, work: other != what or done < work.done)
            work = self._works.get(what)
            if work is None:
                work = self._works[what] = _Work(done, total, now, now, now)
                if done < total:
                    self.say(ProgressEvent(what, "started", done, total, 0.0))
            work.done, work.total, work.reported = done, total, now
            long = seconds_left is not None and seconds_left > LONG
            if done < total and now - work.said >= (self.between if work.told or not long else _TELLING):
                work.said, work.told = now, True
                self.say(ProgressEvent(what, "running", done, total, now - work.started, seconds_left))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close(failed=kind is not None)

    def close(self, failed: bool = False) -> None:
        """Says the last events. Work that never reports its last part counts as finished unless something failed."""
        with self._lock:
            for work in self._works.values():
                if work.done < work.total and not failed:
                    work.done, work.reported = work.total, self.clock()
            self._finish(lambda what, work: True)

    def _finish(self, over: Callable[[str, _Work], bool]) -> None:
        for what, work in list(self._works.items()):
            if work.done >= work.total and over(what, work):
                self.say(ProgressEvent(what, "finished", work.done, work.total, work.reported - work.started))
                del self._works[what]
