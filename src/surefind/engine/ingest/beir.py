"""`beir`: reads a BEIR corpus, one document per line: {"_id", "title", "text", "metadata"}. The ids are kept."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from surefind.base.errors import SourceError
from surefind.base.spec import Stage
from surefind.base.types import Document
from surefind.engine.files.inside import IN_RECORD, guarded
from surefind.engine.files.readers import FORMATS
from surefind.engine.ingest._access_list import record_groups
from surefind.engine.ingest._decode import read_text, unique_keys


@dataclass(frozen=True)
class Beir(Stage):
    kind: ClassVar[str] = "read"
    name: ClassVar[str] = "beir"
    suffixes: ClassVar[tuple[str, ...]] = FORMATS["beir"].suffixes
    checks_access: ClassVar[bool] = True

    def read(self, path: Path, document_id: str) -> Iterable[Document]:
        for number, line in enumerate(read_text(path).split("\n"), 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line, object_pairs_hook=unique_keys)
                metadata = row["metadata"] if isinstance(row.get("metadata"), dict) else {}
                text = row["text"].replace("\0", " ")
                name, where = str(row["_id"]), f"line {number}"
                groups = record_groups(row, name, where)
                yield guarded(Document(name, text, row.get("title") or "", "text", metadata, groups), where, IN_RECORD)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise SourceError(f"is not a BEIR corpus: line {number} has no _id or no text ({error})") from None
