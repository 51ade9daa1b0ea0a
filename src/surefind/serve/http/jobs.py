"""Long work: commands of Surefind in processes of their own, with their progress.

A job is a command of a fixed form, so it does what the command does: it holds the writer's lock, asks the gate, and can
be stopped and continued. Searches go on meanwhile, in the process of the server. The process reads its command, and who
the caller is, from its standard input (`serve/cli/_job.py`): an operating system cuts the words of a command line at a
NUL, and shows them to other users of the machine.
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
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from surefind.errors import LockedError, NotFoundError, UsageError
from surefind.serve.auth.caller import Caller, Scope
from surefind.serve.http.metrics import Metrics

State = Literal["running", "finished", "failed", "cancelled"]
_KEPT = 100
"""Jobs that are remembered, at most. Those that run are not forgotten."""
_LINES = 2_000
"""Lines of progress that a job keeps, at most."""
_AT_ONCE = 4
_PATIENCE = 10.0
"""Seconds that a cancelled job has to stop by itself."""
_WAIT = "60"
"""Seconds that publishing waits for another writer."""
_ERROR = "surefind: "
"""How the line of a command's error begins."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@ -]{0,99}")
_SCOPES: dict[str, Scope] = {
    "sync": "write", "publish": "review", "bench": "review", "study": "review", "pool": "review", "graph": "review",
    "adopt": "review",
}  # fmt: skip
Ended = Callable[["Job"], Awaitable[None]]
"""Is called when a job has ended, before others learn of it."""


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
    lines: list[str] = field(default_factory=list)
    skipped: int = 0
    """Lines at the beginning that are no longer kept."""
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)


class Jobs:
    """The jobs of this server, in memory: a new server knows none, and their work is in the knowledge base."""

    def __init__(self, folder: Path, metrics: Metrics, ended: Ended) -> None:
        self._folder = folder
        self._metrics = metrics
        self._ended = ended
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._starting = 0
        """Jobs whose processes are being started."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, caller: Caller, kind: str, options: dict[str, Any], about: str = "", after: str = "/") -> Job:
        """Starts a job. Raises an error if the caller may not, or too many are running."""
        if kind not in _SCOPES:
            raise UsageError(f"There is no job of the kind {kind!r}. Choices: {', '.join(_SCOPES)}.")
        caller.require(_SCOPES[kind])
        words = _command(kind, options, caller)
        if len(self._processes) + self._starting >= _AT_ONCE:
            raise UsageError(f"{_AT_ONCE} jobs are running. Wait for one, or cancel one.")
        job = Job(secrets.token_hex(8), kind, caller.name, caller.groups, time.time(), about, after)
        environment = {**os.environ, "SUREFIND_PROGRESS_SECONDS": "0.5"}
        line = [*words.options, "--json", "--kb", str(self._folder), "--", *words.names]
        self._starting += 1
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "surefind.serve.cli._job", stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment,
                start_new_session=True, limit=1 << 26,
            )  # fmt: skip
            await _tell(process, {"author": caller.name, "words": line})
        finally:
            self._starting -= 1
        self._jobs[job.id], self._processes[job.id] = job, process
        self._forget()
        task = asyncio.create_task(self._follow(job, process))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    def _forget(self) -> None:
        """Forgets the oldest jobs that have ended, so that only `_KEPT` are remembered."""
        ended = [job_id for job_id in self._jobs if job_id not in self._processes]
        for job_id in ended[: max(0, len(self._jobs) - _KEPT)]:
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
                await asyncio.wait_for(process.wait(), _PATIENCE)
            except TimeoutError:
                os.killpg(process.pid, signal.SIGKILL)

    async def close(self) -> None:
        """Stops all jobs."""
        await asyncio.gather(
            *(self.cancel(self._jobs[job_id]) for job_id in list(self._processes) if job_id in self._jobs)
        )
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def events(self, job: Job, after: int = 0) -> AsyncIterator[tuple[int, str, str]]:
        """Yields (number, kind, line) of each line of progress, and of the end, which has no line. Yields (0, "", "")
        when nothing has happened for a while, so that the connection stays open."""
        number = after
        while True:
            start = max(number - job.skipped, 0)
            for line in job.lines[start:]:
                number = max(number, job.skipped) + 1
                yield number, "progress", line
            if job.state != "running" and job.ended:
                yield number + 1, "end", ""
                return
            async with job.changed:
                try:
                    await asyncio.wait_for(job.changed.wait(), 15)
                except TimeoutError:
                    yield 0, "", ""

    async def _follow(self, job: Job, process: asyncio.subprocess.Process) -> None:
        assert process.stdout and process.stderr
        output = asyncio.create_task(process.stdout.read())
        async for raw in process.stderr:
            line = raw.decode(errors="replace").rstrip()
            if line.startswith(_ERROR):
                continue  # the result has it
            job.lines.append(line)
            if len(job.lines) > _LINES:
                del job.lines[0]
                job.skipped += 1
            await _announce(job)
        text, code = (await output).decode(errors="replace"), await process.wait()
        with contextlib.suppress(ValueError):
            job.result = json.loads(text)
        if job.state == "running":
            job.state = "finished" if code == 0 else "failed"
        if job.state == "failed":
            (job.error_kind, job.error), job.result = _error(job.result), None
        await self._ended(job)
        job.ended = time.time()
        self._processes.pop(job.id, None)
        self._metrics.jobs.labels(job.kind, job.state).inc()
        await _announce(job)


async def _tell(process: asyncio.subprocess.Process, request: dict[str, Any]) -> None:
    """Writes the command of a job to its process. One that has ended already is followed as any other."""
    assert process.stdin
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(json.dumps(request).encode())
        await process.stdin.drain()
    process.stdin.close()


def _error(result: Any) -> tuple[str, str]:
    """Returns the class of a command's error, and why it failed. The message of a lock names another process, with the
    groups of its caller."""
    told = result.get("error") if isinstance(result, dict) else None
    if not isinstance(told, dict):
        return "", "The command failed."
    kind = str(told.get("type", ""))
    if kind == LockedError.__name__:
        return kind, "Another process is writing to the knowledge base. Try again when it has ended."
    return kind, str(told.get("message", "")) or "The command failed."


async def _announce(job: Job) -> None:
    async with job.changed:
        job.changed.notify_all()


@dataclass(frozen=True)
class _Command:
    options: Sequence[str]
    names: Sequence[str] = ()
    """What stands after `--`, so that no name is read as an option."""


def _command(kind: str, options: dict[str, Any], caller: Caller) -> _Command:
    """Returns the command of a job. Every value is checked."""
    groups = [f"--as={group}" for group in sorted(caller.groups)]
    if kind == "sync":
        return _Command(["sync"])
    if kind == "publish":
        version = options.get("version")
        if not isinstance(version, int) or version < 1:
            raise UsageError("publish needs the number of a version: {'kind': 'publish', 'version': 12}.")
        approved = ["--approved"] if options.get("approved") else []
        revision = ["--revision", str(options["revision"])] if options.get("revision") else []
        return _Command(["draft", "publish", "--wait", _WAIT, *approved, *revision], [str(version)])
    if kind == "adopt":
        return _Command(["use", "--report", str(options["folder"])], [str(options["row"])])
    if kind == "graph":
        return _Command(["graph", "stats", *groups])
    if kind == "pool":
        return _Command(["exam", "label", f"--judge={options['judge']}", *groups], [_name(options, "exam")])
    if kind == "study":
        exam = ["--exam", _name(options, "exam")] if options.get("exam") is not None else []
        return _Command(["study", *exam, *groups], [_name(options, "study")])
    words = [
        word for name in ("exam", "preset") if options.get(name) is not None
        for word in (f"--{name}", _name(options, name))
    ]  # fmt: skip
    return _Command(["bench", *words, *groups])


def _name(options: dict[str, Any], option: str) -> str:
    value = options.get(option)
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise UsageError(f"{option} must be a name, not {value!r}.")
    return value
