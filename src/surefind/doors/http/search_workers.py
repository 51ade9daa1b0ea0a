"""Processes that search for the server, so that searches do not wait for each other's Python code.

The server keeps all that has state: who calls, limits, caches, jobs, the current reader. A process gets the arguments
of one search, with the groups of the caller among them, and the number of the reader that the server would have used.
It answers only from the reader with this number, so that an answer is of the generation that it names.

They start when two searches run at once for the first time. The server searches itself as long as no process has opened
its reader: at the start, and for a moment after each new generation. It also searches itself

- on earlier generations;
- with stages that may ask a service, since a budget is counted in one place;
- with models that read passages: they use all cores from one process, and each process would load them again.

A process that ends or hangs is replaced. Its search is done again, once, by another process, and never by the server:
the search may be what ended the process.
"""

from __future__ import annotations

import logging
import pickle
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from surefind.base.abilities import declared
from surefind.base.errors import CorruptIndexError, SurefindError
from surefind.base.types import SearchResult
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.search.reader import RequestedSearch, Searcher
from surefind.kb.settings.config import Settings

LOG = logging.getLogger("surefind.serve")
OPEN_SECONDS = 300.0
"""Seconds that a process has to start and to open a generation."""
PAUSE_SECONDS = 1.0
"""Seconds between the end of a process and the start of the next one."""


class LostWorkerError(SurefindError):
    """The process that searched has ended, or did not answer in time."""


def is_local(pipeline: Pipeline, settings: Settings) -> bool:
    """Returns whether a search asks no other server, and needs no model that is large."""
    here = all(declared(retriever).runs_here for retriever in pipeline.retrieve) and not pipeline.rerank
    return here and settings.store.backend == "local" and not pipeline.asks_llm


class WorkerProcess:
    """One process, and the pipe to it. One thread at a time asks it."""

    def __init__(self, folder: Path) -> None:
        self._pipe, theirs = Pipe()
        command = [sys.executable, "-P", "-m", "surefind.doors.search_process", str(theirs.fileno()), str(folder)]
        try:
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        finally:
            theirs.close()
        self._answered = select.poll()  # `Pipe.poll` makes one for each call
        self._answered.register(self._pipe.fileno(), select.POLLIN)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, seconds: float, *request: Any) -> Any:
        """Returns the answer to a request, or raises the error that the process answers with. Raises `LostWorkerError`
        if it has ended, and `TimeoutError` if it does not answer in time."""
        try:
            self._pipe.send_bytes(pickle.dumps(request, pickle.HIGHEST_PROTOCOL))
            if not self._answered.poll(1000 * seconds):
                raise TimeoutError(f"A process of the server did not answer within {seconds:g} s.")
            kind, value = self._pipe.recv()
        except TimeoutError:
            raise
        except (EOFError, OSError):
            raise LostWorkerError(f"The process {self.pid} of the server has ended.") from None
        if kind == "failed":
            raise value
        return value

    def stop(self) -> None:
        """Ends the process. It only reads, so that there is nothing to finish."""
        self._process.kill()
        self._process.wait()


@dataclass(eq=False)
class WorkerSlot:
    """The place of one process: which one is there, and what it has opened."""

    process: WorkerProcess | None = None
    busy: bool = False
    tried: int = 0
    """The number of the last reader that the process was asked to open."""
    opened: int = 0
    """The number of the reader that it has open."""
    rests_until: float = 0.0


class SearchWorkers:
    """The processes that search, and the searches that wait for them. Threads share it."""

    def __init__(self, folder: Path, number: int, seconds: float) -> None:
        """A search may take `seconds`."""
        self._folder = folder
        self._seconds = seconds
        self._slots = [WorkerSlot() for _ in range(number)]
        self._changed = threading.Condition()
        self._newest = 0
        self._searching = 0
        self._begun = False
        self._closed = False

    def search(self, reader: Searcher, settings: Settings, asked: RequestedSearch) -> SearchResult:
        """Does what `reader.search` does, in a process if one is ready for it. `settings` are those of now."""
        if asked.confidence == "read" or not is_local(asked.pipeline, settings):
            return reader.search(*asked)
        with self.counted():
            slot = self._taken(reader, settings)
            if slot is None:
                return reader.search(*asked)
            try:
                return self._ask(slot, reader, asked)
            except LostWorkerError:
                other = self._taken(reader, settings)
                if other is None:
                    raise
            return self._ask(other, reader, asked)

    def pids(self) -> list[int]:
        """Returns the processes that run."""
        with self._changed:
            return [slot.process.pid for slot in self._slots if slot.process is not None]

    def ready_for(self, reader: Searcher) -> int:
        """Returns how many processes have a reader open."""
        with self._changed:
            return sum(slot.opened == reader.serial for slot in self._slots)

    def close(self) -> None:
        """Ends all processes."""
        with self._changed:
            self._closed = True
            processes = [slot.process for slot in self._slots if slot.process is not None]
            for slot in self._slots:
                slot.process, slot.opened = None, 0
            self._changed.notify_all()
        for process in processes:
            process.stop()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Counts a search until the end of the block. The processes start when there are two."""
        with self._changed:
            self._searching += 1
            self._begun = self._begun or self._searching > 1
        try:
            yield
        finally:
            with self._changed:
                self._searching -= 1

    def _ask(self, slot: WorkerSlot, reader: Searcher, asked: RequestedSearch) -> SearchResult:
        """Searches in the process of a slot that was taken, and gives the slot back."""
        process = slot.process
        try:
            if process is None:
                raise LostWorkerError("The server is stopping.")
            result: SearchResult = process.ask(self._seconds, "search", slot.opened, asked)
            return result
        except (LostWorkerError, TimeoutError):
            self._lose(slot)
            raise
        except CorruptIndexError:
            reader.damaged = True
            raise
        finally:
            self._give_back(slot)

    def _taken(self, reader: Searcher, settings: Settings) -> WorkerSlot | None:
        """Returns a free slot whose process has the reader open, or waits for one; None if no process has. Those that
        are free begin to open it."""
        with self._changed:
            while self._begun and not self._closed:
                if reader.generation >= self._newest:
                    self._newest = reader.generation
                    self._prepare(reader.serial, reader.generation, settings)
                ready = [slot for slot in self._slots if slot.opened == reader.serial]
                free = next((slot for slot in ready if not slot.busy), None)
                if free is not None:
                    free.busy = True
                    return free
                if not ready:
                    return None
                self._changed.wait()
            return None

    def _prepare(self, number: int, generation: int, settings: Settings) -> None:
        """Lets the free processes open a reader that is newer than theirs, in the background."""
        for slot in self._slots:
            if not slot.busy and number > slot.tried and time.monotonic() >= slot.rests_until:
                slot.busy, slot.tried = True, number
                slot.opened = 0  # searches on the reader before do not wait for this
                arguments = slot, number, generation, settings
                threading.Thread(target=self._open, args=arguments, name="surefind-worker", daemon=True).start()

    def _open(self, slot: WorkerSlot, number: int, generation: int, settings: Settings) -> None:
        try:
            process = slot.process or WorkerProcess(self._folder)
            with self._changed:
                closed = self._closed
                slot.process = None if closed else process
            if closed:
                process.stop()
                return
            process.ask(OPEN_SECONDS, "open", number, generation, settings)
            slot.opened = number
        except (LostWorkerError, TimeoutError, OSError):
            self._lose(slot)
        except Exception as error:  # the generation is no longer kept, or cannot be read: the server says so itself
            LOG.warning("A process that searches cannot open generation %s: %s", generation, error)
        finally:
            self._give_back(slot)

    def _lose(self, slot: WorkerSlot) -> None:
        """Ends the process of a slot; another one may start there soon."""
        with self._changed:
            process, slot.process = slot.process, None
            slot.opened = slot.tried = 0
            slot.rests_until = time.monotonic() + PAUSE_SECONDS
        if process is not None:
            process.stop()

    def _give_back(self, slot: WorkerSlot) -> None:
        with self._changed:
            slot.busy = False
            self._changed.notify_all()
