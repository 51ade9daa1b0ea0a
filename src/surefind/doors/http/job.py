"""A job: what is known of it, and its process, which gets its request from its standard input and answers with
events (`serve/job_process.py`)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

from surefind.base.running.workers import started
from surefind.doors.events import Failure, Notice, ProgressEvent, Result, read

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
