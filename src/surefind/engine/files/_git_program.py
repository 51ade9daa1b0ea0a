"""Runs the git program on a bare repository: safely, in its own process group, under limits.

No code from a repository runs: there are no hooks, submodules, filters or working tree. Only the protocols https, ssh
and file are allowed, and git never asks for a password. Time, memory and the size of files are limited, and git ends
with this process, however this process ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from surefind.base.errors import SourceError
from surefind.engine.files.limits import FileLimits

SCHEMES = ("https", "ssh", "file")
_PIECE = 1 << 16
"""Bytes read from a pipe at a time."""
_MAX_OUTPUT_BYTES = 1 << 20
"""Bytes of git's messages that are read."""
_SAFE = [
    word
    for setting in (
        "core.hooksPath=/dev/null", "core.fsmonitor=false", "submodule.recurse=false", "fetch.recurseSubmodules=false",
        "gc.auto=0", "maintenance.auto=false", "init.templateDir=",
        "core.bigFileThreshold=10m",  # larger files are streamed, not loaded
    )
    for word in ("-c", setting)
]  # fmt: skip
_START = """
ulimit -d "$1" 2>/dev/null; ulimit -f "$2" 2>/dev/null; shift 2
exec 3<&0
{ read -r _ <&3 || kill -KILL 0; } >/dev/null 2>&1 &
exec git "$@" </dev/null 3<&-
"""
"""Starts git with limits on its memory (kB) and on the files that it writes (blocks of 512 bytes). Beside it waits a
process that reads our end of a pipe: if the pipe ends without a line, we have died, and the whole group is killed."""


def git(store: Path, *words: str, limits: FileLimits) -> str:
    """Runs a git command and returns its output."""
    with running(store, *words, limits=limits) as output:
        return output.read().decode().strip()


@contextlib.contextmanager
def running(store: Path, *words: str, limits: FileLimits, strict: bool = False) -> Iterator[IO[bytes]]:
    """Runs a git command and yields its output as a stream. The end of the block waits for the command and raises
    `SourceError` if it failed. If the block raises, or time is up, the command and its network helpers are killed.

    With `strict`, an error on stderr is a failure, whatever the exit code. Network commands cannot be strict: a helper
    that may not ask for a password prints `fatal: …`, and the fetch continues without a password.
    """
    with tempfile.TemporaryFile() as stderr:  # not a pipe: git would block once an unread pipe is full
        process = _started(store, words, stderr, limits)
        timed_out = threading.Event()

        def stop() -> None:
            timed_out.set()
            _kill(process)

        timer = threading.Timer(limits.repository_seconds, stop)
        timer.daemon = True
        timer.start()
        watched, output = process.stdin, process.stdout
        assert watched is not None and output is not None
        try:
            yield output
            while output.read(_PIECE):  # git would block on output that the caller left unread
                pass
            process.wait()
        finally:
            timer.cancel()
            _kill(process)
            with contextlib.suppress(BrokenPipeError):
                watched.write(b"\n")  # git has ended: the process beside it may go
                watched.close()
            output.close()
            process.wait()
        if timed_out.is_set():
            seconds = limits.repository_seconds
            raise SourceError(f"git {words[0]} took more than {seconds:g} s (max_repository_seconds) and was stopped.")
        stderr.seek(0)
        lines = stderr.read(_MAX_OUTPUT_BYTES).decode(errors="replace").splitlines()
        reasons = [line for kind in ("fatal: ", "error: ") for line in lines if line.startswith(kind)]
        if process.returncode or (strict and reasons):
            reason = next(iter([*reasons, *filter(None, reversed(lines))]), f"exit code {process.returncode}")
            reason = _limit_reached(" ".join(lines), process.returncode, limits) or reason
            raise SourceError(f"git {words[0]} failed: {reason.removeprefix('fatal: ').removeprefix('error: ')}")


def _limit_reached(said: str, code: int, limits: FileLimits) -> str:
    """Names the limit that stopped git or one of its helpers; empty if none did."""
    if code == -signal.SIGXFSZ or f"signal {int(signal.SIGXFSZ)}" in said or "File too large" in said:
        return f"it writes more than {limits.repository_mb:g} MB (max_repository_mb)"
    if "ut of memory" in said or "malloc failed" in said or "Cannot allocate memory" in said:
        return f"it needs more than {limits.memory_mb:g} MB of memory (max_memory_mb)"
    return ""


def _started(store: Path, words: tuple[str, ...], stderr: IO[bytes], limits: FileLimits) -> subprocess.Popen[bytes]:
    environment = {key: value for key, value in os.environ.items() if key not in ("GIT_DIR", "GIT_WORK_TREE")}
    environment |= {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": ":".join(SCHEMES),
        "GIT_SSH_COMMAND": os.environ.get("GIT_SSH_COMMAND", "ssh -oBatchMode=yes"),
        "LC_ALL": "C",
    }
    most = (str(int(limits.memory_mb * 1000)), str(int(limits.repository_mb * 1e6 / 512)))
    return subprocess.Popen(
        ["/bin/sh", "-c", _START, "sh", *most, *_SAFE, *words],
        cwd=store,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        start_new_session=True,  # its own group: Ctrl-C goes to us only, and one signal kills git and its helpers
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:  # after wait(), another process may have its id
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
