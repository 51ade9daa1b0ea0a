"""Reads and cuts documents under limits, in child processes that can be killed: as many as there are cores.

Documents are cut here if the layout needs a service.

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeVar

from surefind.base.errors import MissingPartError, SourceError
from surefind.base.protocols import Reader, Services
from surefind.base.running import check_stopped, collecting, usable_cores
from surefind.base.types import Chunk, Document
from surefind.engine.files.opening import OUT_OF_MEMORY, FileLimits, ReplacedError
from surefind.engine.files.readers import Readers
from surefind.engine.write.layout import Layout
from surefind.engine.write.prepare import CutTask, Prepared, PrepareTask, chunks_from, from_data

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


_AHEAD = 64
"""Files per process that may be prepared before they are needed."""
_AHEAD_BYTES = 50e6
"""Bytes of files that may be prepared before they are needed: results wait in memory."""
_RULES = 2
"""Raised when files that were refused can be read, so that they are tried again."""
Item = TypeVar("Item")
Result = TypeVar("Result")


class FilePreparer:
    """Prepares files with their readers, in child processes. As a context manager it ends the processes."""

    def __init__(self, readers: Readers, limits: FileLimits, spare: bool = False) -> None:
        self.readers = readers
        self.limits = limits
        self.processes = usable_cores()
        """How many files are prepared at the same time."""
        self._spare = spare
        self._children: set[Child] = set()
        self._idle: list[Child] = []
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

    def start(self) -> None:
        """Starts a child process before the first file is read: Python takes a third of a second to start."""
        if not self._children and (child := self._waiting() or self._new_child()):
            with self._lock:
                self._idle.append(child)

    def find(self, name: str) -> Reader | None:
        return self.readers.find(name)

    def attempt(self, reader: Reader | str, layout: str = "") -> str:
        """Describes what an attempt to read a file depends on besides the file: the reader, the limits, the installed
        extras and, if it was also cut, the layout. A file that failed is tried again when this text changes."""
        cut = f" {_short(layout)}" if layout else ""
        return f"{reader} #{self._circumstances}{cut}"

    @cached_property
    def _circumstances(self) -> str:
        there = [module for module in self.readers.needs if find_spec(module) is not None]
        return _short(f"{_RULES} {self.limits} {there}")

    def each(
        self,
        work: Callable[[Item], Result],
        items: Iterable[Item],
        count: int,
        size: Callable[[Item], int] = lambda item: 0,
    ) -> Iterator[Result]:
        """Yields the results of `work` for all `count` items, in order. Works in parallel, and only a limited number of
        items ahead, with limited sizes (in bytes) in all."""
        processes = min(self.processes, count)
        if processes < 2:
            yield from map(work, items)
            return
        with ThreadPoolExecutor(processes, thread_name_prefix="surefind-read") as pool:
            waiting: deque[tuple[Future[Result], int]] = deque()
            ahead = 0
            try:
                for item in items:
                    while waiting and (len(waiting) > _AHEAD * processes or ahead + size(item) > _AHEAD_BYTES):
                        result, freed = waiting.popleft()
                        ahead -= freed
                        yield result.result()
                    waiting.append((pool.submit(work, item), size(item)))
                    ahead += size(item)
                while waiting:
                    yield waiting.popleft()[0].result()
            except BaseException:  # the other results are not needed any more
                self._end()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def read(self, reader: Reader, path: Path, document_id: str, layout: str = "", real: str = "") -> Prepared:
        """Prepares a file in a child process. Raises `SourceError` or `MissingPartError` if it cannot be read, and
        `ReplacedError` if `path` does not lead to `real` any more."""
        return from_data(self.answer(PrepareTask(str(reader), str(path), document_id, layout, real).to_json()))

    def cut(self, document: Document, layout: str) -> list[Chunk]:
        """Cuts a document in a child process. Raises `SourceError` if it cannot be cut within the limits."""
        (rows,) = self.answer(CutTask(document, layout).to_json())["chunks"]
        return chunks_from(document, rows)

    def answer(self, request: str) -> dict[str, Any]:
        """Answers the request for a file or a document, in JSON form. Raises what `read` raises."""
        data = request.encode()
        deadline = time.monotonic() + self.limits.seconds
        child = self._waiting()
        if child is not None:
            try:
                return self._ask(child, data, deadline)
            except BrokenChildError:
                pass  # earlier files may have filled its memory: try once more in a new process, in the time left
        try:
            return self._ask(self._new_child(), data, deadline)
        except BrokenChildError as error:
            raise SourceError(str(error)) from None

    def _ask(self, child: Child, request: bytes, deadline: float) -> dict[str, Any]:
        try:
            answer = child.ask(request, deadline, self.limits)
        except BaseException:
            self._drop(child)
            raise
        if "memory" in answer:
            self._drop(child)
            raise out_of_memory(self.limits)
        with self._lock:
            self._idle.append(child)
        return check_answer(answer)

    def _new_child(self) -> Child:
        with self._lock:
            if self._ended:
                raise SourceError("was not read: the sync has ended")
            child = Child(self.limits, self.readers)
            self._children.add(child)
        return child

    def _waiting(self) -> Child | None:
        """Returns an idle process of this sync, or a spare one of an earlier sync, or None."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
            child = spares.take(settings_of(self.limits, self.readers)) if self._spare and not self._ended else None
            if child is not None:
                self._children.add(child)
            return child

    def _drop(self, child: Child) -> None:
        with self._lock:
            there = child in self._children
            self._children.discard(child)
            if child in self._idle:
                self._idle.remove(child)
        if there:
            child.end()


def check_answer(answer: dict[str, Any]) -> dict[str, Any]:
    """Returns the answer of a child. Raises the error that it names, if it names one."""
    if "missing" in answer:
        raise MissingPartError(answer["missing"])
    if "swapped" in answer:
        raise ReplacedError
    if "refused" in answer:
        raise SourceError(answer["refused"])
    return answer


@lru_cache(maxsize=16)
def _short(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


_BATCH = 200
"""Documents or files that are committed in one transaction, at most."""
_BATCH_BYTES = 20e6
"""Bytes of documents or files after which a batch ends: it is held in memory."""


@dataclass(frozen=True)
class Cut:
    """The result of cutting a document."""

    document: str
    """The document's id."""
    size: int
    """The number of characters of its text."""
    chunks: list[Chunk]
    missed: str = ""
    """Why answers of a language model are missing; the chunks were made without them."""
    refused: str = ""
    """Why there are no chunks: the document exceeds a limit."""


def cut_each(
    layout: Layout, documents: Iterable[Document], count: int, reading: FilePreparer, services: Services
) -> Iterator[Cut]:
    """Cuts `count` documents, in order. A document that exceeds a limit is refused, and the others are cut."""
    if not layout.text_only:
        for document in documents:
            chunks, missed = cut_here(layout, document, services)
            yield Cut(document.id, len(document.text), chunks, missed)
        return
    text = str(layout)

    def apart(document: Document) -> Cut:
        try:
            return Cut(document.id, len(document.text), reading.cut(document, text))
        except SourceError as error:
            return Cut(document.id, len(document.text), [], refused=str(error))

    yield from reading.each(apart, documents, count, lambda document: len(document.text))


def cut_here(layout: Layout, document: Document, services: Services) -> tuple[list[Chunk], str]:
    """Cuts a document in this process, with stages that may use services. Returns its chunks and, if a language model
    failed, why.

    If a model did not answer, the chunks are made without its answer, and the next sync reads the file again. Answers
    are cached and never paid for twice. If the budget is spent, `BudgetError` ends the sync.
    """
    with collecting() as notes:
        chunks = layout.cut(document, services)
    services.meter.check()
    if not notes.without:
        return chunks, ""
    return chunks, f"was indexed without some answers of a language model: {notes.text}; the next sync tries again"


def batches(items: Iterable[Item], size: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Yields the items in batches, which are limited in number and in bytes."""
    batch: list[Item] = []
    held = 0
    for item in items:
        batch.append(item)
        held += size(item)
        if len(batch) == _BATCH or held >= _BATCH_BYTES:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch
