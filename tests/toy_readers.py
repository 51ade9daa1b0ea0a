"""A reader and a chunker that misbehave, for the child process to load as a plugin would be."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from surefind.base.protocols import Services
from surefind.base.spec import Stage
from surefind.base.types import Chunk, Document
from surefind.engine.files.inside import still_working


@dataclass(frozen=True)
class Naughty(Stage):
    """Does what its file says."""

    kind: ClassVar[str] = "read"
    name: ClassVar[str] = "naughty"
    suffixes: ClassVar[tuple[str, ...]] = (".naughty",)
    isolated: ClassVar[bool] = True

    def read(self, path: Path, key: str) -> Iterable[Document]:
        order = path.read_text().strip()
        misbehave(order)
        yield Document(key, f"{order} {os.getpid()}", key)


@dataclass(frozen=True)
class NaughtyChunker(Stage):
    """Does what the document's first word says, and makes one chunk, whose context is the number of its process."""

    kind: ClassVar[str] = "chunk"
    name: ClassVar[str] = "naughty"
    text_only: ClassVar[bool] = True

    def chunk(self, document: Document, services: Services) -> list[Chunk]:
        misbehave(document.text.split()[0])
        return [Chunk(document.id, 0, len(document.text), document.text, context=f"process{os.getpid()}")]


def misbehave(order: str) -> None:
    if order == "hang":
        while True:
            time.sleep(60)
    if order == "crash":
        os.abort()
    if order == "late":
        time.sleep(2)
        os.abort()
    if order == "eat":
        eaten = [bytearray(50_000_000) for _ in range(1000)]
        eaten[0][0] = 1
    if order == "chatter":
        os.write(1, b"noise on standard output")
        print("more noise")
    if order == "steps":
        for _ in range(4):
            time.sleep(1)
            still_working()
