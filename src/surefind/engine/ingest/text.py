"""`text(encoding="")`: reads plain text. The file's name is the title. `encoding` is for files that are not UTF-8."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from surefind.base.spec import Stage
from surefind.base.types import Document
from surefind.engine.files.readers import FORMATS
from surefind.engine.ingest._access_list import with_access_only
from surefind.engine.ingest._decode import SAVE_OR_SET_ENCODING, read_text
from surefind.engine.ingest._tables import source_lines


@dataclass(frozen=True)
class Text(Stage):
    kind: ClassVar[str] = "read"
    name: ClassVar[str] = "text"
    suffixes: ClassVar[tuple[str, ...]] = FORMATS["text"].suffixes
    checks_access: ClassVar[bool] = True

    encoding: str = ""

    def read(self, path: Path, document_id: str) -> Iterable[Document]:
        text = read_text(path, lambda data: self.encoding, SAVE_OR_SET_ENCODING.format("text"))
        metadata, body, groups = with_access_only(text, document_id)
        yield Document(document_id, body, path.stem, "text", metadata, groups, source_lines(text, body))
