"""Child processes that read and cut documents under limits, and the ones that wait for the next sync."""

from __future__ import annotations

import atexit
import dataclasses
import json
import os
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import IO, Any

from surefind.base.errors import SourceError
from surefind.base.running.cores import usable_cores
from surefind.base.running.workers import check_stopped
from surefind.engine.files.opening import OUT_OF_MEMORY, FileLimits
from surefind.engine.files.readers import Readers

_PIECE = 1 << 16
"""Bytes read from a pipe, or written to it, at a time."""
_ANSWER = 8
"""Bytes of an answer per character of text, at most: JSON needs up to six for one, and lists the chunks too."""
_LOOK_SECONDS = 0.1
"""Seconds after which whoever waits for a child looks whether the work was stopped."""
_SPARE_SECONDS = 60.0
"""Seconds that a spare process waits for the next sync."""


class BrokenChildError(SourceError):
    """The child process crashed or ran out of memory. The cause may be this file or an earlier one."""


class Child:
    """A child process that prepares files, one at a time."""

    def __init__(self, limits: FileLimits, readers: Readers) -> None:
        self.settings = settings_of(limits, readers)
        # -P: modules must not be imported from the current folder, which may hold the documents. A new session: Ctrl-C
        # goes to the parent only.
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "surefind.engine.write.child", self.settings[0]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()

    def ask(self, request: bytes, deadline: float, limits: FileLimits) -> dict[str, Any]:
        """Sends a request and returns the answer. An answer of length 0 asks for more time."""
        self._give(request + b"\n", deadline, limits)
        while not (size := struct.unpack(">Q", self._take(8, deadline, limits))[0]):
            deadline = time.monotonic() + limits.seconds
        if size > _ANSWER * limits.unpacked_mb * 1e6:
            raise SourceError(f"gives more than {limits.unpacked_mb:g} MB of text (max_unpacked_mb)")
        return dict(json.loads(self._take(size, deadline, limits)))

    def _give(self, data: bytes, deadline: float, limits: FileLimits) -> None:
        left = memoryview(data)
        try:
            file = _pipe(self.process.stdin).fileno()
            os.set_blocking(file, False)
            while left:
                _wait(deadline, limits, writing=file)
                left = left[os.write(file, left[:_PIECE]) :]
        except (BrokenPipeError, ValueError):
            raise self._crash(limits) from None

    def _take(self, size: int, deadline: float, limits: FileLimits) -> bytes:
        file = _pipe(self.process.stdout).fileno()
        parts: list[bytes] = []
        while size:
            _wait(deadline, limits, reading=file)
            piece = os.read(file, min(size, _PIECE))
            if not piece:
                raise self._crash(limits)
            parts.append(piece)
            size -= len(piece)
        return b"".join(parts)

    def _crash(self, limits: FileLimits) -> BrokenChildError:
        """Waits for the process to end and says how it ended."""
        code = self.process.wait()
        if code == OUT_OF_MEMORY:
            return out_of_memory(limits)
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return BrokenChildError(f"cannot be read: its reader crashed ({name})")


def out_of_memory(limits: FileLimits) -> BrokenChildError:
    return BrokenChildError(f"needs more than {limits.memory_mb:g} MB of memory to be read (max_memory_mb)")


def settings_of(limits: FileLimits, readers: Readers) -> tuple[str, ...]:
    """Everything that a process is started with. A spare process with other settings cannot be used."""
    given = json.dumps({"limits": dataclasses.asdict(limits), "readers": readers.specs})
    return given, os.environ.get("PYTHONPATH", ""), os.environ.get("PATH", "")


class _Spares:
    """Child processes that wait for the next sync. They end after a minute, or with this process. A fork of this
    process does not use them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[tuple[float, Child]] = []
        self._timer: threading.Timer | None = None
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.end)

    def put(self, children: Sequence[Child]) -> None:
        with self._lock:
            self._waiting += [(time.monotonic() + _SPARE_SECONDS, child) for child in children]
            surplus = [child for _, child in self._waiting[: -usable_cores()]]
            self._waiting = self._waiting[-usable_cores() :]
            self._watch()
        for child in surplus:
            child.end()

    def take(self, settings: tuple[str, ...]) -> Child | None:
        with self._lock:
            for at, (_, child) in enumerate(self._waiting):
                if child.settings == settings and child.process.poll() is None:
                    del self._waiting[at]
                    return child
        return None

    def end(self, before: float = float("inf")) -> None:
        """Ends the processes whose waiting time is over at `before`; by default, all of them."""
        with self._lock:
            done = [child for until, child in self._waiting if until <= before]
            self._waiting = [(until, child) for until, child in self._waiting if until > before]
            self._timer = None
            self._watch()
        for child in done:
            child.end()

    def _watch(self) -> None:
        """Starts the timer that ends the processes, if it does not run yet."""
        if self._waiting and self._timer is None:
            self._timer = threading.Timer(_SPARE_SECONDS, lambda: self.end(time.monotonic()))
            self._timer.daemon = True
            self._timer.start()

    def _forget(self) -> None:
        """Forgets all processes, in a fork: they belong to the parent, which still talks to them."""
        self._lock = threading.Lock()
        self._waiting, self._timer = [], None


spares = _Spares()


def _wait(deadline: float, limits: FileLimits, reading: int | None = None, writing: int | None = None) -> None:
    """Waits for a pipe. Raises `SourceError` at the deadline, and `StoppedError` if the work was stopped: the caller
    then ends the child."""
    read, write = ([] if file is None else [file] for file in (reading, writing))
    while not any(select.select(read, write, [], min(_LOOK_SECONDS, max(0.0, deadline - time.monotonic())))):
        check_stopped()
        if time.monotonic() >= deadline:
            raise SourceError(f"takes more than {limits.seconds:g} s (max_seconds); reading was stopped")


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise ValueError("the process has no pipe")
    return pipe
