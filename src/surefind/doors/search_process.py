"""A process that searches for the server: `python -m surefind.doors.search_process PIPE FOLDER`.

It reads the knowledge base, writes nothing and knows no callers. Its indexes are mapped from the same files as those of
the server, so that the memory holds them once. Requests come through the pipe PIPE, one after the other, and each gets
an answer: ("done", value) or ("failed", error).

    ("open", reader, generation, settings)   opens a generation with these settings, in place of the one before
    ("search", reader, arguments)            calls `Searcher.search`; who may read what is one of the arguments

`reader` is the number that the server gave to its own reader of the generation. The process ends when the server closes
the pipe, and also when the server was killed.
"""

from __future__ import annotations

import copyreg
import os
import pickle
import queue
import sys
import threading
import traceback
from collections.abc import Iterable
from dataclasses import fields
from multiprocessing.connection import Connection
from operator import attrgetter
from typing import Any

from surefind.base.errors import SurefindError
from surefind.base.running import collect_less
from surefind.base.types import Hit, SearchResult, StageScore, TraceEntry
from surefind.engine.search.reader import RequestedSearch, Searcher
from surefind.kb import KnowledgeBase
from surefind.kb.settings.config import Settings


def _send_values(kind: Any, names: Iterable[str]) -> None:
    """Lets pickle write a value as its class and its fields. Its own way for frozen classes takes almost twice as long,
    0.7 ms for ten hits."""
    values_of = attrgetter(*names)
    copyreg.pickle(kind, lambda value: (kind, values_of(value)))


for _kind in (SearchResult, Hit, TraceEntry):
    _send_values(_kind, [field.name for field in fields(_kind)])
_send_values(StageScore, StageScore._fields)


class ReaderProcess:
    """Holds the reader of one generation, and answers requests."""

    def __init__(self, folder: str) -> None:
        self._kb = KnowledgeBase.open(folder)
        self._number = 0
        self._reader: Searcher | None = None

    def answer(self, kind: str, *rest: Any) -> Any:
        return self._open(*rest) if kind == "open" else self._search(*rest)

    def _open(self, number: int, generation: int, settings: Settings) -> None:
        if settings != self._kb.settings:
            self._kb.use(settings)
        reader = self._kb.reader_of(generation)
        reader.view.ready(settings.find(settings.pipeline).retrieve)
        if self._reader is not None:
            reader.view.warm(self._reader.view, settings.retrievers)
        self._number, self._reader = number, reader

    def _search(self, number: int, asked: RequestedSearch) -> SearchResult:
        if self._reader is None or number != self._number:
            raise RuntimeError(f"The reader {number} is not open here; the open one is {self._number}.")
        return self._reader.search(*asked)


def main() -> None:
    pipe, folder = Connection(int(sys.argv[1])), sys.argv[2]
    collect_less()
    requests: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(pipe, requests), daemon=True).start()
    process = ReaderProcess(folder)
    while True:
        request = requests.get()
        try:
            answer = "done", process.answer(*request)
        except Exception as error:
            answer = "failed", _portable(error)
        pipe.send_bytes(pickle.dumps(answer, pickle.HIGHEST_PROTOCOL))


def _receive(pipe: Connection, requests: queue.SimpleQueue[tuple[Any, ...]]) -> None:
    """Takes requests in. It ends the process with the server, whatever else the process is doing."""
    try:
        while True:
            requests.put(pipe.recv())
    except (EOFError, OSError):
        os._exit(0)


def _portable(error: Exception) -> Exception:
    """Returns an error that can be sent, with its place in the code if it is none of ours."""
    if not isinstance(error, SurefindError):
        error.add_note("In the process that searches:\n" + "".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))  # an error with arguments of its own may be written but not read
    except Exception:
        return RuntimeError("".join(traceback.format_exception(error)))
    return error


if __name__ == "__main__":
    main()
