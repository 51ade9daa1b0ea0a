"""Prepares files under limits, in child processes that can be killed: as many as there are cores.

A child process serves a whole sync, so a file costs one message and not a start of Python. It is replaced if a file
made it hang, crash or use up its memory. With `spare` it waits a minute for the next sync, as in `sync --watch`.
"""

from __future__ import annotations

import atexit
import dataclasses
import hashlib
import json
import os
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeVar

from surefind.abilities import NeedsExtra
from surefind.cores import usable_cores
from surefind.errors import MissingPartError, SourceError
from surefind.files.limits import Limits
from surefind.files.opening import ReplacedError
from surefind.files.readers import Readers
from surefind.protocols import Reader
from surefind.write.prepare import Prepared, Task, from_data

_PIECE = 1 << 16
"""Bytes read from a pipe at a time."""
_SPARE_SECONDS = 60.0
"""Seconds that a spare process waits for the next sync."""
_AHEAD = 64
"""Files per process that may be prepared before they are needed."""
Item = TypeVar("Item")
Result = TypeVar("Result")


class Reading:
    """Prepares files with their readers, in child processes. As a context manager it ends the processes."""

    def __init__(self, readers: Readers, limits: Limits, spare: bool = False) -> None:
        self.readers = readers
        self.limits = limits
        self._spare = spare
        self._children: set[_Child] = set()
        self._idle: list[_Child] = []
        self._lock = threading.Lock()
        self._ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._spare and kind is None:
            with self._lock:
                self._children.difference_update(self._idle)
                spares.put(self._idle)
                self._idle = []
        self._end()

    def _end(self) -> None:
        self._ended = True
        with self._lock:
            children = list(self._children)
        for child in children:
            self._drop(child)

    def find(self, name: str) -> Reader | None:
        return self.readers.find(name)

    def attempt(self, reader: Reader) -> str:
        """Describes what an attempt to read a file depends on besides the file: the reader, the limits and the
        installed extras. A file that failed is tried again when this text changes."""
        return f"{reader} #{self._circumstances}"

    @cached_property
    def _circumstances(self) -> str:
        with_parts = [reader for reader in self.readers.by_name.values() if isinstance(reader, NeedsExtra)]
        needed = sorted({module for reader in with_parts for module in reader.needs})
        there = [module for module in needed if find_spec(module) is not None]
        return hashlib.blake2b(f"{self.limits} {there}".encode(), digest_size=6).hexdigest()

    def each(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yields the results of `work` for all items in order. Works in parallel, and only a limited number ahead."""
        count = min(usable_cores(), len(items))
        if count < 2:
            yield from map(work, items)
            return
        with ThreadPoolExecutor(count, thread_name_prefix="surefind-read") as pool:
            waiting: deque[Future[Result]] = deque()
            try:
                for item in items:
                    waiting.append(pool.submit(work, item))
                    if len(waiting) > _AHEAD * count:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            except BaseException:  # the other results are not needed any more
                self._end()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def read(self, reader: Reader, path: Path, id: str, layout: str = "", real: str = "") -> Prepared:
        """Prepares a file in a child process. Raises `SourceError` or `MissingPartError` if it cannot be read, and
        `ReplacedError` if `path` does not lead to `real` any more."""
        task = Task(str(reader), str(path), id, layout, real)
        child = self._waiting()
        if child is not None:
            try:
                return self._ask(child, task)
            except _BrokenChildError:
                pass  # earlier files may have filled its memory: try once more in a new process
        try:
            return self._ask(self._new_child(), task)
        except _BrokenChildError as error:
            raise SourceError(str(error)) from None

    def _ask(self, child: _Child, task: Task) -> Prepared:
        try:
            answer = child.ask(task, self.limits)
        except BaseException:
            self._drop(child)
            raise
        if "memory" in answer:
            self._drop(child)
            message = f"needs more than {self.limits.memory_mb:g} MB of memory to be read (max_memory_mb)"
            raise _BrokenChildError(message)
        with self._lock:
            self._idle.append(child)
        if "missing" in answer:
            raise MissingPartError(answer["missing"])
        if "swapped" in answer:
            raise ReplacedError
        if "refused" in answer:
            raise SourceError(answer["refused"])
        return from_data(answer)

    def _new_child(self) -> _Child:
        with self._lock:
            if self._ended:
                raise SourceError("was not read: the sync has ended")
            child = _Child(self.limits, self.readers)
            self._children.add(child)
        return child

    def _waiting(self) -> _Child | None:
        """Returns an idle process of this sync, or a spare one of an earlier sync, or None."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
            child = spares.take(_settings(self.limits, self.readers)) if self._spare and not self._ended else None
            if child is not None:
                self._children.add(child)
            return child

    def _drop(self, child: _Child) -> None:
        with self._lock:
            there = child in self._children
            self._children.discard(child)
            if child in self._idle:
                self._idle.remove(child)
        if there:
            child.end()


class _BrokenChildError(SourceError):
    """The child process crashed or ran out of memory. The cause may be this file or an earlier one."""


class _Child:
    """A child process that prepares files, one at a time."""

    def __init__(self, limits: Limits, readers: Readers) -> None:
        self.settings = _settings(limits, readers)
        # -P: modules must not be imported from the current folder, which may hold the documents. A new session: Ctrl-C
        # goes to the parent only.
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "surefind.write.child", self.settings[0]],
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

    def ask(self, task: Task, limits: Limits) -> dict[str, Any]:
        """Sends a task and returns the answer. An answer of length 0 asks for more time."""
        deadline = time.monotonic() + limits.seconds
        try:
            _pipe(self.process.stdin).write(task.to_json().encode() + b"\n")
            _pipe(self.process.stdin).flush()
        except (BrokenPipeError, ValueError):
            raise _BrokenChildError(f"cannot be read: {self._crash()}") from None
        while not (size := struct.unpack(">Q", self._take(8, deadline, limits))[0]):
            deadline = time.monotonic() + limits.seconds
        if size > 8 * limits.unpacked_mb * 1e6:
            raise SourceError(f"gives more than {limits.unpacked_mb:g} MB of text (max_unpacked_mb)")
        return dict(json.loads(self._take(size, deadline, limits)))

    def _take(self, size: int, deadline: float, limits: Limits) -> bytes:
        file = _pipe(self.process.stdout).fileno()
        parts: list[bytes] = []
        while size:
            ready, _, _ = select.select([file], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise SourceError(f"takes more than {limits.seconds:g} s (max_seconds); reading was stopped")
            piece = os.read(file, min(size, _PIECE))
            if not piece:
                raise _BrokenChildError(f"cannot be read: {self._crash()}")
            parts.append(piece)
            size -= len(piece)
        return b"".join(parts)

    def _crash(self) -> str:
        """Waits for the process to end and says how it ended."""
        code = self.process.wait()
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"its reader crashed ({name})"


def _settings(limits: Limits, readers: Readers) -> tuple[str, ...]:
    """Everything that a process is started with. A spare process with other settings cannot be used."""
    given = json.dumps({"limits": dataclasses.asdict(limits), "readers": readers.specs})
    return given, os.environ.get("PYTHONPATH", ""), os.environ.get("PATH", "")


class _Spares:
    """Child processes that wait for the next sync. They end after a minute, or with this process. A fork of this
    process does not use them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[tuple[float, _Child]] = []
        self._timer: threading.Timer | None = None
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.end)

    def put(self, children: Sequence[_Child]) -> None:
        with self._lock:
            self._waiting += [(time.monotonic() + _SPARE_SECONDS, child) for child in children]
            surplus = [child for _, child in self._waiting[: -usable_cores()]]
            self._waiting = self._waiting[-usable_cores() :]
            self._watch()
        for child in surplus:
            child.end()

    def take(self, settings: tuple[str, ...]) -> _Child | None:
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


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise ValueError("the process has no pipe")
    return pipe
