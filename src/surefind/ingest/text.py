"""`text`: plain text; the title is the file's name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from surefind.ingest._decode import read_text
from surefind.spec import Stage
from surefind.types import Document


@dataclass(frozen=True)
class Text(Stage):
    kind: ClassVar[str] = "read"
    name: ClassVar[str] = "text"
    suffixes: ClassVar[tuple[str, ...]] = (".txt", ".text", ".log")

    def read(self, path: Path, id: str) -> Iterable[Document]:
        yield Document(id, read_text(path), path.stem, "text")
