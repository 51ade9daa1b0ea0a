"""Starts every program that Surefind starts, in a process that notes Python code after a fork: `forkless.py NOTE`.

`NOTE` is a file that a callback of `os.register_at_fork` writes to: Python code ran between a fork and its exec. It
gets the name of what was started; the last line names all. A fork writes to it too, so that the test can fail."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from surefind import KnowledgeBase
from surefind.base.access import Caller
from surefind.doors.cli import search as opening
from surefind.doors.http.jobs import Jobs
from surefind.doors.http.metrics import Metrics
from surefind.doors.http.search_workers import WorkerProcess
from surefind.engine.files.git import git
from surefind.engine.files.opening import FileLimits
from surefind.engine.files.readers import Readers
from surefind.engine.write.preparing import Child

FOLDER = Path(tempfile.mkdtemp())


def a_fork() -> None:
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)


def a_subprocess_of_uvloop() -> None:
    async def run() -> None:
        await (await asyncio.create_subprocess_exec("true")).wait()

    uvloop().run(run())


def uvloop() -> Any:
    import uvloop

    return uvloop


async def job() -> None:
    async def ended(*_: object) -> None: ...

    jobs = Jobs(FOLDER, Metrics(), ended)
    made = await jobs.start(Caller("ada", frozenset({"admin"}), frozenset()), "sync", {})
    while not made.ended:
        await asyncio.sleep(0.01)
    assert made.state in ("finished", "failed"), made
    await jobs.close()


def a_job() -> None:
    asyncio.run(job())


def a_job_of_uvloop() -> None:
    uvloop().run(job())


def a_reader_of_files() -> None:
    Child(FileLimits(), Readers()).end()


def a_search_process() -> None:
    KnowledgeBase.open(FOLDER)
    WorkerProcess(FOLDER).stop()


def git_program() -> None:
    git(FOLDER, "version", limits=FileLimits())


def an_editor() -> None:
    place = (FOLDER / "a.md", 3, "")
    with (
        mock.patch.object(opening, "_file_of", lambda *_: place),
        mock.patch.object(sys.stdout, "isatty", lambda: True),
        mock.patch.dict(os.environ, VISUAL="true", EDITOR="true"),
    ):
        opening.open_file("a.md", kb=FOLDER)


WAYS = {
    function.__name__: function
    for function in (
        a_fork, a_subprocess_of_uvloop, a_job, a_job_of_uvloop, a_reader_of_files, a_search_process, git_program,
        an_editor,
    )
}  # fmt: skip

if __name__ == "__main__":
    note = Path(sys.argv[1])
    started: list[str] = []

    def write(line: str) -> None:
        with note.open("a") as file:
            file.write(f"{line}\n")

    os.register_at_fork(after_in_child=lambda: write(started[-1]))
    assert subprocess  # the callback is not called by what `subprocess` starts
    for name, start in WAYS.items():
        started.append(name)
        with contextlib.suppress(ModuleNotFoundError):  # uvloop
            start()
    write(" ".join(started))
