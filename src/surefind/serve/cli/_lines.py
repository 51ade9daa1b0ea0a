"""Progress where there is no terminal: plain lines on the error stream, for logs and pipes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

SECONDS_BETWEEN = 10.0
"""Between two lines about one kind of work."""


@dataclass
class _Work:
    done: int
    total: int
    started: float
    told: float
    """When a line was printed about it."""
    heard: float
    """When it reported."""


@dataclass
class Lines:
    """Says when each kind of work starts and finishes, and how far it is now and then. Threads may report at once.

    Work is over when it has reported all of its parts and something else begins: an index reports its vectors, and then
    itself.
    """

    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _works: dict[str, _Work] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def report(self, what: str, done: int, total: int) -> None:
        with self._lock:
            now = self.clock()
            self._finish(lambda other, work: other != what or done < work.done)
            work = self._works.get(what)
            if work is None:
                work = self._works[what] = _Work(done, total, now, now, now)
                if done < total:
                    self.say(f"{what}: started, {total:,} to do")
            work.done, work.total, work.heard = done, total, now
            if done < total and now - work.told >= SECONDS_BETWEEN:
                work.told = now
                self.say(f"{what}: {done:,} of {total:,} after {now - work.started:.0f} s")

    def close(self, failed: bool = False) -> None:
        """The last lines. Some kinds of work do not report their last part, and are over if nothing failed."""
        with self._lock:
            for work in self._works.values():
                if work.done < work.total and not failed:
                    work.done, work.heard = work.total, self.clock()
            self._finish(lambda what, work: True)

    def _finish(self, over: Callable[[str, _Work], bool]) -> None:
        for what, work in list(self._works.items()):
            if work.done >= work.total and over(what, work):
                self.say(f"{what}: finished, {work.total:,} in {work.heard - work.started:.1f} s")
                del self._works[what]
