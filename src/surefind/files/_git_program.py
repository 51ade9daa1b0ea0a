"""Runs the git program on a bare repository: safely, in its own process group, with a deadline.

No code from a repository runs: there are no hooks, submodules, filters or working tree. Only the protocols https, ssh
and file are allowed, and git never asks for a password.
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

from surefind.errors import SourceError

SCHEMES = ("https", "ssh", "file")
SECONDS = 600
"""Seconds after which a git command is stopped."""
_PIECE = 1 << 16
"""Bytes read from a pipe at a time."""
_SAFE = [
    word
    for setting in (
        "core.hooksPath=/dev/null", "core.fsmonitor=false", "submodule.recurse=false", "fetch.recurseSubmodules=false",
        "gc.auto=0", "maintenance.auto=false", "init.templateDir=",
    )
    for word in ("-c", setting)
]  # fmt: skip


def git(store: Path, *words: str) -> str:
    """Runs a git command and returns its output."""
    with running(store, *words) as output:
        return output.read().decode().strip()


@contextlib.contextmanager
def running(store: Path, *words: str, strict: bool = False) -> Iterator[IO[bytes]]:
    """Runs a git command and yields its output as a stream. The end of the block waits for the command and raises
    `SourceError` if it failed. If the block raises, or time is up, the command and its network helpers are killed.

    With `strict`, an error on stderr is a failure, whatever the exit code. Network commands cannot be strict: a helper
    that may not ask for a password prints `fatal: …`, and the fetch continues without a password.
    """
    with tempfile.TemporaryFile() as stderr:  # not a pipe: git would block once an unread pipe is full
        process = _started(store, words, stderr)
        timed_out = threading.Event()

        def stop() -> None:
            timed_out.set()
            _kill(process)

        timer = threading.Timer(SECONDS, stop)
        timer.daemon = True
        timer.start()
        output = process.stdout
        assert output is not None
        try:
            yield output
            while output.read(_PIECE):  # git would block on output that the caller left unread
                pass
            process.wait()
        finally:
            timer.cancel()
            _kill(process)
            output.close()
            process.wait()
        if timed_out.is_set():
            raise SourceError(f"git {words[0]} took more than {SECONDS} s and was stopped.")
        stderr.seek(0)
        lines = stderr.read().decode(errors="replace").splitlines()
        reasons = [line for kind in ("fatal: ", "error: ") for line in lines if line.startswith(kind)]
        if process.returncode or (strict and reasons):
            reason = next(iter([*reasons, *filter(None, reversed(lines))]), f"exit code {process.returncode}")
            raise SourceError(f"git {words[0]} failed: {reason.removeprefix('fatal: ').removeprefix('error: ')}")


def _started(store: Path, words: tuple[str, ...], stderr: IO[bytes]) -> subprocess.Popen[bytes]:
    environment = {key: value for key, value in os.environ.items() if key not in ("GIT_DIR", "GIT_WORK_TREE")}
    environment |= {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": ":".join(SCHEMES),
        "GIT_SSH_COMMAND": os.environ.get("GIT_SSH_COMMAND", "ssh -oBatchMode=yes"),
        "LC_ALL": "C",
    }
    return subprocess.Popen(
        ["git", *_SAFE, *words],
        cwd=store,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        start_new_session=True,  # its own group: Ctrl-C goes to us only, and one signal kills git and its helpers
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:  # after wait(), another process may have its id
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
