"""The process of a job: `python -m surefind.doors.job_process`, with the request on standard input.

    {"kind": "bench", "folder": "/srv/kb", "author": "ada", "groups": ["hr"], "options": {"exam": "staff"}}

It calls the function of this kind (`serve/work.py`) and writes events to standard output (`serve/events.py`). Names of
people and groups come as JSON: other users of the machine can read the words of a command line, and an operating system
cuts them at a NUL. The process has a group of its own, so that the server can stop it with all that it started.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import threading
from typing import Any

SECONDS_BETWEEN = 0.5
"""Seconds between two events about the same kind of work."""


def main() -> None:
    try:
        request = json.loads(sys.stdin.buffer.read())
        from surefind.base.errors import SurefindError
        from surefind.base.running import collect_less
        from surefind.doors.events import Failure
        from surefind.doors.terminal import explained, leave
    except KeyboardInterrupt:
        sys.exit(130)
    collect_less()
    channel = _Channel()
    try:
        _run(channel, **request)
    except SurefindError as error:
        channel.send(Failure(type(error).__name__, str(error)))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        leave()
    except (OSError, sqlite3.Error) as error:
        told = explained(error)
        if told is None:
            raise
        channel.send(Failure(type(told).__name__, str(told)))
        sys.exit(told.exit_code)


class _Channel:
    """Writes events. What libraries print goes to standard error, so that it cannot be taken for an event."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._lock = threading.Lock()

    def send(self, event: Any) -> None:
        from surefind.doors.events import written

        with self._lock:
            self._out.write(f"{written(event)}\n")
            self._out.flush()


def _run(channel: _Channel, kind: str, folder: str, author: str, groups: list[str], options: dict[str, Any]) -> None:
    from dataclasses import replace

    from surefind.base.access import Access
    from surefind.doors.events import Notice, ProgressEvent, ProgressLog, Result
    from surefind.doors.terminal import clean
    from surefind.doors.work import KINDS, JobContext
    from surefind.kb import KnowledgeBase

    def say(text: str) -> None:
        channel.send(Notice(clean(text)))

    def give(value: Any) -> None:
        channel.send(Result(value))

    def tell(event: ProgressEvent) -> None:
        channel.send(replace(event, what=clean(event.what)))

    access = Access.of(*groups)
    with (
        KnowledgeBase.open(folder, author=author) as kb,
        ProgressLog(tell, between=SECONDS_BETWEEN) as log,
    ):
        task = JobContext(kb, access, log.report, say, give)
        KINDS[kind](task, **options)


if __name__ == "__main__":
    main()
