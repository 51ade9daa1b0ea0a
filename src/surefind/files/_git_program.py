"""Running the git program on a bare repository: safely, in a process group of its own, with a deadline.

Nothing of a repository is run: no hooks, no submodules, no filters, no working tree. Only https, ssh and file are
spoken, and no password is asked for.
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
_PIECE = 1 << 16
_SAFE = [
    word
    for setting in (
        "core.hooksPath=/dev/null", "core.fsmonitor=false", "submodule.recurse=false", "fetch.recurseSubmodules=false",
        "gc.auto=0", "maintenance.auto=false", "init.templateDir=",
    )
    for word in ("-c", setting)
]  # fmt: skip


def git(store: Path, *words: str) -> str:
    """What a command prints."""
    with running(store, *words) as output:
        return output.read().decode().strip()


@contextlib.contextmanager
def running(store: Path, *words: str, strict: bool = False) -> Iterator[IO[bytes]]:
    """A command's output while it runs. The end of the block waits for the command and raises if it failed; where the
    block raises, or time is up, the command is killed together with its helpers for the network.

    `strict`: an error on stderr is a failure, whatever the exit code. Not for the network: a helper that cannot ask for
    a password says `fatal: …`, and the fetch goes on without one.
    """
    with tempfile.TemporaryFile() as complaint:  # a pipe that nobody reads would stop git when it is full
        process = _started(store, words, complaint)
        late = threading.Event()

        def stop() -> None:
            late.set()
            _kill(process)

        timer = threading.Timer(SECONDS, stop)
        timer.daemon = True
        timer.start()
        output = process.stdout
        assert output is not None
        try:
            yield output
            while output.read(_PIECE):  # git must not be stopped by what is left unread
                pass
            process.wait()
        finally:
            timer.cancel()
            _kill(process)
            output.close()
            process.wait()
        if late.is_set():
            raise SourceError(f"git {words[0]} took more than {SECONDS} s and was stopped.")
        complaint.seek(0)
        said = complaint.read().decode(errors="replace").splitlines()
        reasons = [line for kind in ("fatal: ", "error: ") for line in said if line.startswith(kind)]
        if process.returncode or (strict and reasons):
            reason = next(iter([*reasons, *filter(None, reversed(said))]), f"exit code {process.returncode}")
            raise SourceError(f"git {words[0]} failed: {reason.removeprefix('fatal: ').removeprefix('error: ')}")


def _started(store: Path, words: tuple[str, ...], complaint: IO[bytes]) -> subprocess.Popen[bytes]:
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
        stderr=complaint,
        start_new_session=True,  # a group of its own: Ctrl-C is ours, and one signal reaches all of it
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:  # once it has been waited for, its number may be another's
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
