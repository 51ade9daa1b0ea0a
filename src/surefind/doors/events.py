"""What a job tells the server while it runs, a line of JSON each: its progress, messages for the owner, and its end."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from surefind.base.running.time_left import about
from surefind.doors.plain import plain


@dataclass(frozen=True)
class ProgressEvent:
    """How far some work is."""

    what: str
    """The kind of work, such as Reading."""
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
