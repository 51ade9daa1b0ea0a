"""Long work in processes of their own, with their progress.

Jobs wait for a place. Publishing and retiring have one of their own, so that no other job keeps them from starting. One
sync runs at a time, and one that waits is the answer to everybody who asks for the same. Callers take turns: who has
the fewest running jobs comes first, then who had a turn the longest time ago, and nobody has all places.

A job calls the functions that commands call (`serve/work.py`), so it does what they do: it holds the writer's lock,
asks the gate, and can be stopped and continued. Searches go on meanwhile, in the process of the server. The process of
a job (`serve/job_process.py`) gets what to do, and who the caller is, from its standard input, and answers with events.

A job: what is known of it, and its process, which gets its request from its standard input and answers with
events (`serve/job_process.py`).

What a caller sees of a job. A job runs as the owner, so its output is about every document.

A caller who may read everything sees all of it. Others see the state, the kinds of work without their counts, the new
generation of a sync or a publication, and the figures of the benchmark or study that was made for their groups. Its
report quotes the documents that they may read when they open it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

from surefind.base.access import EVERYTHING, Caller, Scope
from surefind.base.disk.sealed import from_json, to_json
from surefind.base.errors import (
    BudgetError,
    ConflictError,
    ExamError,
    GateError,
    LockedError,
    NotBuiltError,
    NotFoundError,
    NothingIndexedError,
    SpecError,
    UsageError,
)
from surefind.base.redact import without_folders
from surefind.base.running import started
from surefind.doors.events import Failure, Notice, ProgressEvent, Result, read
from surefind.doors.http.metrics import Metrics
from surefind.doors.http.turns import TooOftenError
from surefind.lab.bench.report import BenchReport
from surefind.lab.bench.saved import readable_report
from surefind.lab.study.html import readable_study

State = Literal["waiting", "running", "finished", "failed", "cancelled"]
_EVENTS = 2_000
"""Events that a job keeps, at most."""
_MAX_EVENT_BYTES = 1 << 30
"""Bytes of an event, at most: the result of a benchmark is one."""
_LARGE_EVENT_BYTES = 1 << 16
"""Bytes from which an event is read in a thread, so that other requests do not wait."""


@dataclass
class Job:
    id: str
    kind: str
    caller: str
    groups: frozenset[str]
    """The groups of its caller: a benchmark or a study is made for them."""
    began: float
    options: dict[str, Any] = field(default_factory=dict)
    about: str = ""
    """What it works on, such as the name of an exam."""
    after: str = "/"
    """The page that shows its result."""
    state: State = "waiting"
    ended: float | None = None
    result: Any = None
    error: str = ""
    error_kind: str = ""
    """The name of the error's class."""
    told: list[ProgressEvent | Notice] = field(default_factory=list)
    """How far it is, and what it says."""
    skipped: int = 0
    """Events at the beginning that are no longer kept."""
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    callers: set[str] = field(default_factory=set)
    """Who asked for it: its caller, and those who asked for the same while it waited."""
    _process: subprocess.Popen[bytes] | None = None

    async def follow(self, folder: Path) -> tuple[int, Failure | None]:
        """Runs the process of the job in the knowledge base `folder`. Returns its exit code, and why it failed, if it
        said so."""
        identity = {"author": self.caller, "groups": sorted(self.groups)}
        request = {"kind": self.kind, "folder": str(folder), **identity, "options": self.options}
        process = await asyncio.wrap_future(started(partial(_start_process, json.dumps(request).encode())))
        self._process = process
        (out, first), (errors, second) = await _attached(process.stdout), await _attached(process.stderr)
        try:
            if self.state == "cancelled":
                self.signal(signal.SIGINT)
            failure, _ = await asyncio.gather(self._listen(out), self._overhear(errors))
            return await asyncio.wrap_future(started(process.wait)), failure
        finally:
            first.close()
            second.close()
            self.signal(signal.SIGKILL)  # unless it has ended

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the process of the job and all that it started, if it runs."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    async def announce(self) -> None:
        """Wakes those who follow the job."""
        async with self.changed:
            self.changed.notify_all()

    async def _listen(self, stream: asyncio.StreamReader) -> Failure | None:
        """Takes in the events of the job, until its process ends. Returns why it failed, if it said so."""
        failure = None
        async for line in stream:
            try:
                large = len(line) > _LARGE_EVENT_BYTES
                event = await asyncio.wrap_future(started(partial(read, line))) if large else read(line)
            except (ValueError, KeyError, TypeError):  # cut off, because the process was killed while it wrote
                continue
            if isinstance(event, Result):
                self.result = event.value
            elif isinstance(event, Failure):
                failure = event
            else:
                await self._keep(event)
        return failure

    async def _overhear(self, stream: asyncio.StreamReader) -> None:
        """Takes what the process writes past us, such as warnings of libraries, for messages to the owner."""
        async for line in stream:
            await self._keep(Notice(line.decode(errors="replace").rstrip()))

    async def _keep(self, event: ProgressEvent | Notice) -> None:
        self.told.append(event)
        if len(self.told) > _EVENTS:
            del self.told[0]
            self.skipped += 1
        await self.announce()


def _start_process(request: bytes) -> subprocess.Popen[bytes]:
    """Starts the process of a job and tells it what to do. One that has ended already is followed as any other. The
    event loop does not start processes: uvloop runs Python's code for forks in them before their program, which then
    waits for ever for locks of other threads."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "surefind.doors.job_process"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.stdin
    with contextlib.suppress(BrokenPipeError, ConnectionResetError), process.stdin:
        process.stdin.write(request)
    return process


async def _attached(pipe: IO[bytes] | None) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    """Lets the event loop read a pipe."""
    stream = asyncio.StreamReader(_MAX_EVENT_BYTES)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), pipe)
    return stream, transport


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


_WORK = re.compile(r"[A-Z][a-z]+ing\b")
"""The first word of a kind of work, such as Reading or Indexing, without what it works on."""
_ABOUT_THE_REQUEST = frozenset(
    kind.__name__
    for kind in (
        BudgetError, ConflictError, ExamError, LockedError, NotBuiltError, NotFoundError, NothingIndexedError,
        SpecError, UsageError,
    )
)  # fmt: skip
"""Errors that are about what was asked for. The messages of others quote questions, documents or files."""
_GATE = (
    "The gate refused the new documents: the standing exam got worse, or could not be asked. Nothing was published. "
    "Somebody who may read every document sees the reason."
)
_OTHER = "The job failed. Somebody who may read every document sees the reason."


def job_data(job: Job, caller: Caller) -> dict[str, Any]:
    """Returns a job as JSON, as far as the caller may know it."""
    lines, whole = job_lines(job, caller), _sees_all(caller)
    last, progress = job.told[-1] if whole and job.told else None, None
    if isinstance(last, ProgressEvent) and last.state == "running":
        progress = {"what": last.what, "done": last.done, "total": last.total}
    return {
        "id": job.id, "kind": job.kind, "state": job.state, "began": job.began, "ended": job.ended,
        "progress": progress, "message": lines[-1] if lines else "",
        "result": job.result if whole else _result(job, caller),
        "error": (job.error if whole else _error(job)) or None,
    }  # fmt: skip


def job_lines(job: Job, caller: Caller) -> list[str]:
    """Returns the lines of progress that the caller may see."""
    return [line for event in job.told if (line := shown_line(event, caller))]


def shown_line(event: ProgressEvent | Notice, caller: Caller) -> str:
    """Returns what a caller may see of an event, as a line; empty if that is nothing."""
    if _sees_all(caller):
        return str(event)
    work = _WORK.match(event.what) if isinstance(event, ProgressEvent) else None
    if work is None or not isinstance(event, ProgressEvent):
        return ""
    return work[0] if event.state == "running" else f"{work[0]}: {event.state}"


def job_about(job: Job, caller: Caller) -> str:
    """Returns what a job works on, such as the name of an exam, to those who asked for it."""
    return job.about if _sees_all(caller) or caller.name in job.callers else ""


def _sees_all(caller: Caller) -> bool:
    return EVERYTHING in caller.groups


def _result(job: Job, caller: Caller) -> Any:
    if not isinstance(job.result, dict):
        return None
    if job.kind in ("sync", "publish", "retire"):
        return {key: value for key, value in job.result.items() if key == "generation"}
    if job.kind not in ("bench", "study") or not job.groups <= caller.groups:
        return None
    return readable_study(job.result) if job.kind == "study" else _figures(job.result)


def _figures(result: dict[str, Any]) -> Any:
    """Returns the report of a benchmark without its quotes; None if another version of Surefind made it."""
    try:
        return to_json(readable_report(from_json(BenchReport, result)))
    except ValueError:
        return None


def _error(job: Job) -> str:
    if not job.error or job.error_kind in _ABOUT_THE_REQUEST:
        return without_folders(job.error)
    return _GATE if job.error_kind == GateError.__name__ else _OTHER
