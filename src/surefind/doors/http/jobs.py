"""Long work in processes of their own, with their progress.

Jobs wait for a place. Publishing and retiring have one of their own, so that no other job keeps them from starting. One
sync runs at a time, and one that waits is the answer to everybody who asks for the same. Callers take turns: who has
the fewest running jobs comes first, then who had a turn the longest time ago, and nobody has all places.

A job calls the functions that commands call (`serve/work.py`), so it does what they do: it holds the writer's lock,
asks the gate, and can be stopped and continued. Searches go on meanwhile, in the process of the server. The process of
a job (`serve/job_process.py`) gets what to do, and who the caller is, from its standard input, and answers with events.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from surefind.base.access import Scope
from surefind.base.errors import LockedError, NotFoundError, UsageError
from surefind.doors.auth.caller import Caller
from surefind.doors.events import Failure, Notice, ProgressEvent
from surefind.doors.http.job import Job, State
from surefind.doors.http.metrics import Metrics
from surefind.doors.http.rate import TooOftenError

LOG = logging.getLogger("surefind.serve")
_MAX_JOBS = 100
"""Jobs that are remembered, at most. Those that run or wait are not forgotten."""
_MAX_RUNNING = 4
"""Jobs that run at once, besides the one that publishes or retires."""
_MAX_OF_CALLER = 8
"""Jobs of one caller that run or wait, in each place."""
_MAX_WAITING = 100
"""Jobs of all callers that run or wait, in each place."""
_CANCEL_SECONDS = 10.0
"""Seconds that a cancelled job has to stop by itself."""
_STOP_SECONDS = 3.0
"""Seconds that a job has when the server stops."""
_PUBLISHING = ("publish", "retire")
"""The kinds with a place of their own."""
_WRITING = ("sync", "graph", "adopt")
"""The kinds of which one runs at a time, since each holds the writer's lock."""
_MERGED = ("sync", "complete")
"""The kinds of which one that waits is the answer to everybody who asks for the same."""
_FAILED = "The job failed."
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@ -]{0,99}")
_SCOPES: dict[str, Scope] = {
    "sync": "write", "publish": "review", "bench": "review", "study": "review", "pool": "review", "graph": "review",
    "adopt": "review", "retire": "review", "complete": "write",
}  # fmt: skip
_OPTIONS: dict[str, tuple[str, ...]] = {
    "sync": ("folder",), "graph": (), "publish": ("version", "approved", "revision"), "bench": ("exam", "preset"),
    "study": ("study", "exam"), "pool": ("exam", "judge"), "adopt": ("folder", "row"), "retire": ("document",),
    "complete": (),
}  # fmt: skip
_NAMED = {"bench": ("exam", "preset"), "study": ("study", "exam"), "pool": ("exam",)}
"""The options of each kind that are names which a caller chose."""
_REQUIRED = {("study", "study"), ("pool", "exam")}
Ended = Callable[[str, State], Awaitable[None]]
"""Is called with the kind of a job and how it ended, before others learn of it."""


class Jobs:
    """The jobs of this server, in memory: a new server knows none, and their work is in the knowledge base."""

    def __init__(self, folder: Path, metrics: Metrics, ended: Ended) -> None:
        self._folder = folder
        self._metrics = metrics
        self._ended = ended
        self._jobs: dict[str, Job] = {}
        self._waiting: list[Job] = []
        self._running: dict[str, Job] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._turns = 0
        self._latest: dict[str, int] = {}
        """The last turn of each caller whose jobs run or wait."""

    async def start(self, caller: Caller, kind: str, options: dict[str, Any], about: str = "", after: str = "/") -> Job:
        """Starts a job, or lets it wait for its turn. A sync that waits already is returned in place of another one
        with the same options. Raises an error if the caller may not, or has too many."""
        if kind not in _SCOPES:
            raise UsageError(f"There is no job of the kind {kind!r}. Choices: {', '.join(_SCOPES)}.")
        names_folder = kind == "sync" and "folder" in options  # a place on the disk of the server
        caller.require("admin" if names_folder else _SCOPES[kind])
        chosen = _checked(kind, options)
        for waiting in self._waiting:
            if kind == waiting.kind and kind in _MERGED and waiting.options == chosen:
                waiting.callers.add(caller.name)
                return waiting
        job = Job(secrets.token_hex(8), kind, caller.name, caller.groups, time.time(), chosen, about, after)
        job.callers.add(caller.name)
        self._check_room(job)
        self._jobs[job.id] = job
        self._waiting.append(job)
        self._next()
        self._forget()
        return job

    def _check_room(self, job: Job) -> None:
        there = [other for other in (*self._waiting, *self._running.values()) if _place(other) == _place(job)]
        if sum(other.caller == job.caller for other in there) >= _MAX_OF_CALLER:
            raise TooOftenError(f"You have {_MAX_OF_CALLER} jobs that run or wait. Wait for one, or cancel one.")
        if len(there) >= _MAX_WAITING:
            raise TooOftenError(f"{_MAX_WAITING} jobs run or wait, as many as the server takes. Try again soon.")

    def _next(self) -> None:
        """Starts the jobs that may run now."""
        while ready := [job for job in self._waiting if self._has_place(job)]:
            running = Counter(job.caller for job in self._running.values())
            job = min(ready, key=lambda job: (running[job.caller], self._latest.get(job.caller, 0)))
            self._turns += 1
            self._latest[job.caller] = self._turns
            self._waiting.remove(job)
            self._running[job.id] = job
            job.state = "running"
            self._tasks[job.id] = asyncio.create_task(self._run(job))
        here = {job.caller for job in (*self._waiting, *self._running.values())}
        self._latest = {name: turn for name, turn in self._latest.items() if name in here}

    def _has_place(self, job: Job) -> bool:
        running = [other for other in self._running.values() if _place(other) == _place(job)]
        if job.kind in _PUBLISHING:
            return not running
        mine = sum(other.caller == job.caller for other in running)
        two_write = job.kind in _WRITING and any(other.kind in _WRITING for other in running)
        return len(running) < _MAX_RUNNING and mine < max(1, _MAX_RUNNING - 1) and not two_write

    def _forget(self) -> None:
        """Forgets the oldest jobs that have ended, so that only `_MAX_JOBS` are remembered."""
        ended = [job_id for job_id, job in self._jobs.items() if job.ended]
        for job_id in ended[: max(0, len(self._jobs) - _MAX_JOBS)]:
            del self._jobs[job_id]

    def all(self, caller: Caller) -> list[Job]:
        """Returns the jobs that a caller may see, newest first: its own, or all for an admin."""
        return [job for job in reversed(self._jobs.values()) if caller.may("admin") or caller.name in job.callers]

    def get(self, job_id: str, caller: Caller) -> Job:
        job = self._jobs.get(job_id)
        if job is None or not (caller.may("admin") or caller.name in job.callers):
            raise NotFoundError(f"There is no job {job_id!r}.")
        return job

    async def cancel(self, job: Job, caller: Caller | None = None, patience: float = _CANCEL_SECONDS) -> None:
        """Stops a job as Ctrl-C does; its finished work is kept. For a caller who is not the only one who asked for it,
        it goes on without them."""
        if caller is not None and job.callers - {caller.name} and not caller.may("admin"):
            job.callers.discard(caller.name)
            return
        if job.ended:
            return
        job.state = "cancelled"
        if job in self._waiting:
            self._waiting.remove(job)
            await self._finish(job, "cancelled")
            return
        job.signal(signal.SIGINT)  # a process that is being started gets it then
        if task := self._tasks.get(job.id):
            await asyncio.wait({task}, timeout=patience)
        job.signal(signal.SIGKILL)

    async def close(self) -> None:
        """Stops all jobs."""
        for job in self._waiting:
            job.state, job.ended = "cancelled", time.time()
        self._waiting.clear()
        await asyncio.gather(*(self.cancel(job, None, _STOP_SECONDS) for job in list(self._running.values())))
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def events(self, job: Job, after: int = 0) -> AsyncIterator[tuple[int, ProgressEvent | Notice | None]]:
        """Yields each event with its number, and the number of the end, without an event. Yields (0, None) when nothing
        has happened for a while, so that the connection stays open."""
        number = after
        while True:
            start = max(number - job.skipped, 0)
            for event in job.told[start:]:
                number = max(number, job.skipped) + 1
                yield number, event
            if job.ended:
                yield number + 1, None
                return
            async with job.changed:
                try:
                    await asyncio.wait_for(job.changed.wait(), 15)
                except TimeoutError:
                    yield 0, None

    async def _run(self, job: Job) -> None:
        state: State = "failed"
        try:
            code, failure = await job.follow(self._folder)
            state = job.state if job.state != "running" else "finished" if code == 0 else "failed"
            if state == "failed":
                failure = failure or Failure("", _FAILED)
                job.error_kind, job.error, job.result = failure.kind, _told(failure), None
        except Exception:  # its process cannot be started, or writes what cannot be read
            LOG.exception("the job %s (%s) failed", job.id, job.kind)
            job.error = _FAILED
        try:
            del self._running[job.id]
            self._next()
            await self._finish(job, state)
        finally:
            del self._tasks[job.id]

    async def _finish(self, job: Job, state: State) -> None:
        try:
            await self._ended(job.kind, state)
        finally:
            job.state, job.ended = state, time.time()
            self._metrics.jobs.labels(job.kind, job.state).inc()
            await job.announce()


def _place(job: Job) -> bool:
    """Says in which of the two places a job runs."""
    return job.kind in _PUBLISHING


def _told(failure: Failure) -> str:
    """Returns why a job failed. The message of a lock names another process, with the groups of its caller."""
    if failure.kind == LockedError.__name__:
        return "Another process is writing to the knowledge base. Try again when it has ended."
    return failure.message or _FAILED


def _checked(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """Checks what a caller chose, and returns the options of the function of this kind."""
    for name in _NAMED.get(kind, ()):
        value = options.get(name)
        optional = value is None and (kind, name) not in _REQUIRED
        if not optional and not (isinstance(value, str) and _NAME.fullmatch(value)):
            raise UsageError(f"{name} must be a name, not {value!r}.")
    return {name: options[name] for name in _OPTIONS[kind] if options.get(name) is not None}
