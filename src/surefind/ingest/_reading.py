"""Reading files within limits: plain text here, everything that parses in a process that can be killed.

One child serves a whole sync, so a file costs a message and not the start of a Python. It is replaced when a file
has hung, crashed or eaten its memory.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import select
import signal
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from surefind.errors import MissingPartError, SourceError
from surefind.ingest._inside import reading
from surefind.ingest._limits import Limits
from surefind.ingest._readers import Readers
from surefind.protocols import Reader
from surefind.types import Document, Place

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_PIECE = 1 << 16


@dataclass(frozen=True)
class Taken:
    """What came out of a file: documents, and what could not be read of it as (member or nothing, reason)."""

    documents: list[Document]
    complaints: list[tuple[str, str]]


class Reading:
    """Knows the readers, and reads with them. A context: the child ends with it."""

    def __init__(self, readers: Readers, limits: Limits) -> None:
        self.readers = readers
        self.limits = limits
        self._child: _Child | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        if self._child:
            self._child.end()
            self._child = None

    def find(self, name: str) -> Reader | None:
        return self.readers.find(name)

    def attempt(self, reader: Reader) -> str:
        """Names what an attempt at a file depended on besides the file: reader, limits, and which extras were there."""
        return f"{reader} #{self._circumstances}"

    @cached_property
    def _circumstances(self) -> str:
        needed = sorted({module for reader in self.readers.by_name.values() for module in getattr(reader, "needs", ())})
        there = [module for module in needed if find_spec(module) is not None]
        return hashlib.blake2b(f"{self.limits} {there}".encode(), digest_size=6).hexdigest()

    def read(self, reader: Reader, path: Path, id: str) -> Taken:
        """Raises `SourceError` or `MissingPartError` if nothing can be read."""
        taken = self._apart(reader, path, id) if getattr(reader, "isolated", False) else self._here(reader, path, id)
        return Taken([_storable(document) for document in taken.documents], taken.complaints)

    def _here(self, reader: Reader, path: Path, id: str) -> Taken:
        with reading(self.limits, self.readers) as scope:
            return Taken(list(reader.read(path, id)), scope.complaints)

    def _apart(self, reader: Reader, path: Path, id: str) -> Taken:
        request = {"reader": str(reader), "path": str(path), "id": id}
        fresh = self._child is None
        try:
            return self._ask(request)
        except _WornError:
            if not fresh:  # it may have been earlier files that filled its memory: once more, from nothing
                try:
                    return self._ask(request)
                except _WornError as error:
                    raise SourceError(str(error)) from None
            raise

    def _ask(self, request: dict[str, str]) -> Taken:
        if self._child is None:
            self._child = _Child(self.limits, self.readers)
        try:
            answer = self._child.ask(request, self.limits)
        except BaseException:
            self._end()
            raise
        if "missing" in answer:
            raise MissingPartError(answer["missing"])
        if "refused" in answer:
            raise SourceError(answer["refused"])
        if "memory" in answer:
            self._end()
            raise _WornError(f"needs more than {self.limits.memory_mb:g} MB of memory to be read (max_memory_mb)")
        return Taken([_document(row) for row in answer["documents"]], [(a, b) for a, b in answer["complaints"]])


class _WornError(SourceError):
    """The child broke down, which may or may not be this file's doing."""


class _Child:
    def __init__(self, limits: Limits, readers: Readers) -> None:
        settings = json.dumps({"limits": dataclasses.asdict(limits), "readers": readers.specs})
        # -P: the folder of the documents is not a place to import from. A session of its own: Ctrl-C is the parent's.
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "surefind.ingest._child", settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def end(self) -> None:
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()
        self.process.wait()

    def ask(self, request: dict[str, str], limits: Limits) -> dict[str, Any]:
        deadline = time.monotonic() + limits.seconds
        try:
            _pipe(self.process.stdin).write(json.dumps(request).encode() + b"\n")
            _pipe(self.process.stdin).flush()
        except BrokenPipeError:
            raise _WornError(f"cannot be read: {self._end_of_it()}") from None
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
                raise SourceError(f"takes more than {limits.seconds:g} s to read (max_seconds); it was given up")
            piece = os.read(file, min(size, _PIECE))
            if not piece:
                raise _WornError(f"cannot be read: {self._end_of_it()}")
            parts.append(piece)
            size -= len(piece)
        return b"".join(parts)

    def _end_of_it(self) -> str:
        code = self.process.wait()
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"its reader crashed ({name})"


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise ValueError("the child has no pipe")
    return pipe


def _document(row: list[Any]) -> Document:
    id, text, title, format, metadata, acl, places = row
    return Document(id, text, title, format, metadata, tuple(acl), tuple(Place(at, name) for at, name in places))


def _storable(document: Document) -> Document:
    """Characters that a database cannot hold give way to a blank, one for one, so that places stay."""
    facts = json.dumps(dict(document.metadata), ensure_ascii=False)
    if not any(map(_UNSTORABLE.search, (document.text, document.title, document.id, facts))):
        return document
    clean = {key: _UNSTORABLE.sub(" ", getattr(document, key)) for key in ("id", "text", "title")}
    return Document(
        **clean,
        format=document.format,
        metadata=json.loads(_UNSTORABLE.sub(" ", facts)),
        acl=document.acl,
        places=document.places,
    )
