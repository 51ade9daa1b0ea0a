"""Long work in processes of their own, with their progress.

A job calls the functions that commands call (`serve/work.py`), so it does what they do: it holds the writer's lock,
asks the gate, and can be stopped and continued. Searches go on meanwhile, in the process of the server. The process of
a job (`serve/job_process.py`) gets what to do, and who the caller is, from its standard input, and answers with events.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from surefind.access import Scope
from surefind.errors import LockedError, NotFoundError, UsageError
from surefind.serve.auth.caller import Caller
from surefind.serve.events import Failure, Notice, ProgressEvent, Result, read
from surefind.serve.http.metrics import Metrics

State = Literal["running", "finished", "failed", "cancelled"]
_MAX_JOBS = 100
"""Jobs that are remembered, at most. Those that run are not forgotten."""
_EVENTS = 2_000
"""Events that a job keeps, at most."""
_MAX_EVENT_BYTES = 1 << 30
"""Bytes of an event, at most: the result of a benchmark is one."""
_MAX_RUNNING = 4
_CANCEL_SECONDS = 10.0
"""Seconds that a cancelled job has to stop by itself."""
_FAILED = "The job failed."
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@ -]{0,99}")
_SCOPES: dict[str, Scope] = {
    "sync": "write", "publish": "review", "bench": "review", "study": "review", "pool": "review", "graph": "review",
    "adopt": "review", "retire": "review",
}  # fmt: skip
_OPTIONS: dict[str, tuple[str, ...]] = {
    "sync": ("folder",), "graph": (), "publish": ("version", "approved", "revision"), "bench": ("exam", "preset"),
    "study": ("study", "exam"), "pool": ("exam", "judge"), "adopt": ("folder", "row"), "retire": ("document",),
}  # fmt: skip
_NAMED = {"bench": ("exam", "preset"), "study": ("study", "exam"), "pool": ("exam",)}
"""The options of each kind that are names which a caller chose."""
_REQUIRED = {("study", "study"), ("pool", "exam")}
Ended = Callable[[str, State], Awaitable[None]]
"""Is called with the kind of a job and how it ended, before others learn of it."""


@dataclass
class Job:
    id: str
    kind: str
    caller: str
    groups: frozenset[str]
    """The groups of its caller: a benchmark or a study is made for them."""
    began: float
    about: str = ""
    """What it works on, such as the name of an exam."""
    after: str = "/"
    """The page that shows its result."""
    state: State = "running"
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


class Jobs:
    """The jobs of this server, in memory: a new server knows none, and their work is in the knowledge base."""

    def __init__(self, folder: Path, metrics: Metrics, ended: Ended) -> None:
        self._folder = folder
        self._metrics = metrics
        self._ended = ended
        self._jobs: dict[str, Job] = {}
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._starting = 0
        """Jobs whose processes are being started."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, caller: Caller, kind: str, options: dict[str, Any], about: str = "", after: str = "/") -> Job:
        """Starts a job. Raises an error if the caller may not, or too many are running."""
        if kind not in _SCOPES:
            raise UsageError(f"There is no job of the kind {kind!r}. Choices: {', '.join(_SCOPES)}.")
        names_folder = kind == "sync" and "folder" in options  # a place on the disk of the server
        caller.require("admin" if names_folder else _SCOPES[kind])
        chosen = _checked(kind, options)
        if len(self._processes) + self._starting >= _MAX_RUNNING:
            raise UsageError(f"{_MAX_RUNNING} jobs are running. Wait for one, or cancel one.")
        job = Job(secrets.token_hex(8), kind, caller.name, caller.groups, time.time(), about, after)
        identity = {"author": caller.name, "groups": sorted(caller.groups)}
        request = {"kind": kind, "folder": str(self._folder), **identity, "options": chosen}
        self._starting += 1
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "surefind.serve.job_process", stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, start_new_session=True,
                limit=_MAX_EVENT_BYTES,
            )  # fmt: skip
            await _tell(process, request)
        finally:
            self._starting -= 1
        self._jobs[job.id], self._processes[job.id] = job, process
        self._forget()
        task = asyncio.create_task(self._follow(job, process))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    def _forget(self) -> None:
        """Forgets the oldest jobs that have ended, so that only `_MAX_JOBS` are remembered."""
        ended = [job_id for job_id in self._jobs if job_id not in self._processes]
        for job_id in ended[: max(0, len(self._jobs) - _MAX_JOBS)]:
            del self._jobs[job_id]

    def all(self, caller: Caller) -> list[Job]:
        """Returns the jobs that a caller may see, newest first: its own, or all for an admin."""
        return [job for job in reversed(self._jobs.values()) if caller.may("admin") or job.caller == caller.name]

    def get(self, job_id: str, caller: Caller) -> Job:
        job = self._jobs.get(job_id)
        if job is None or not (caller.may("admin") or job.caller == caller.name):
            raise NotFoundError(f"There is no job {job_id!r}.")
        return job

    async def cancel(self, job: Job) -> None:
        """Stops a job as Ctrl-C does; its finished work is kept."""
        process = self._processes.get(job.id)
        if process is None:
            return
        job.state = "cancelled"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
            try:
                await asyncio.wait_for(process.wait(), _CANCEL_SECONDS)
            except TimeoutError:
                os.killpg(process.pid, signal.SIGKILL)

    async def close(self) -> None:
        """Stops all jobs."""
        await asyncio.gather(
            *(self.cancel(self._jobs[job_id]) for job_id in list(self._processes) if job_id in self._jobs)
        )
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def events(self, job: Job, after: int = 0) -> AsyncIterator[tuple[int, ProgressEvent | Notice | None]]:
        """Yields each event with its number, and the number of the end, without an event. Yields (0, None) when nothing
        has happened for a while, so that the connection stays open."""
        number = after
        while True:
            start = max(number - job.skipped, 0)
            for event in job.told[start:]:
                number = max(number, job.skipped) + 1
                yield number, event
            if job.state != "running" and job.ended:
                yield number + 1, None
                return
            async with job.changed:
                try:
                    await asyncio.wait_for(job.changed.wait(), 15)
                except TimeoutError:
                    yield 0, None

    async def _follow(self, job: Job, process: asyncio.subprocess.Process) -> None:
        assert process.stdout and process.stderr
        failure, _ = await asyncio.gather(_listen(job, process.stdout), _overhear(job, process.stderr))
        code = await process.wait()
        state: State = job.state if job.state != "running" else "finished" if code == 0 else "failed"
        if state == "failed":
            failure = failure or Failure("", _FAILED)
            job.error_kind, job.error, job.result = failure.kind, _told(failure), None
        try:
            await self._ended(job.kind, state)
        finally:
            job.state, job.ended = state, time.time()
            self._processes.pop(job.id, None)
            self._metrics.jobs.labels(job.kind, job.state).inc()
            await _announce(job)


async def _listen(job: Job, stream: asyncio.StreamReader) -> Failure | None:
    """Takes in the events of a job, until its process ends. Returns why it failed, if it said so."""
    failure = None
    async for line in stream:
        try:
            event = read(line)
        except (ValueError, KeyError, TypeError):  # cut off, because the process was killed while it wrote
            continue
        if isinstance(event, Result):
            job.result = event.value
        elif isinstance(event, Failure):
            failure = event
        else:
            await _keep(job, event)
    return failure


async def _overhear(job: Job, stream: asyncio.StreamReader) -> None:
    """Takes what the process of a job writes past us, such as warnings of libraries, for messages to the owner."""
    async for line in stream:
        await _keep(job, Notice(line.decode(errors="replace").rstrip()))


async def _keep(job: Job, event: ProgressEvent | Notice) -> None:
    job.told.append(event)
    if len(job.told) > _EVENTS:
        del job.told[0]
        job.skipped += 1
    await _announce(job)


async def _tell(process: asyncio.subprocess.Process, request: dict[str, Any]) -> None:
    """Writes the request of a job to its process. One that has ended already is followed as any other."""
    assert process.stdin
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(json.dumps(request).encode())
        await process.stdin.drain()
    process.stdin.close()


def _told(failure: Failure) -> str:
    """Returns why a job failed. The message of a lock names another process, with the groups of its caller."""
    if failure.kind == LockedError.__name__:
        return "Another process is writing to the knowledge base. Try again when it has ended."
    return failure.message or _FAILED


async def _announce(job: Job) -> None:
    async with job.changed:
        job.changed.notify_all()


def _checked(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """Checks what a caller chose, and returns the options of the function of this kind."""
    for name in _NAMED.get(kind, ()):
        value = options.get(name)
        optional = value is None and (kind, name) not in _REQUIRED
        if not optional and not (isinstance(value, str) and _NAME.fullmatch(value)):
            raise UsageError(f"{name} must be a name, not {value!r}.")
    return {name: options[name] for name in _OPTIONS[kind] if options.get(name) is not None}
