"""`csv(delimiter="", encoding="")`: reads a table and repeats its header every so many rows. Hits name rows.

Unless `delimiter` is set, it is detected among comma, semicolon, tab and bar. `encoding` applies to files that are not
UTF-8 and have no byte order mark, for example `cp1252` for files saved by Excel in Western Europe.
"""

from __future__ import annotations

import csv as csv_library
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from surefind.base.errors import SourceError
from surefind.base.spec import Stage, require
from surefind.base.text.words import find_delimiter
from surefind.base.types import Document
from surefind.engine.files.inside import access_name, owner_if_alike, owner_only
from surefind.engine.files.readers import FORMATS
from surefind.engine.ingest._decode import SAVE_OR_SET_ENCODING, read_text
from surefind.engine.ingest._tables import joined, numbered, parts

_SEPARATOR_LINE = re.compile(r"sep=(.)\n")
"""The first line of some files for Excel, which names the delimiter."""


@dataclass(frozen=True)
class Csv(Stage):
    kind: ClassVar[str] = "read"
    name: ClassVar[str] = "csv"
    suffixes: ClassVar[tuple[str, ...]] = FORMATS["csv"].suffixes
    checks_access: ClassVar[bool] = True

    delimiter: str = ""
    encoding: str = ""

    def __post_init__(self) -> None:
        require(len(self.delimiter) <= 1, self, "delimiter must be one character")

    def read(self, path: Path, document_id: str) -> Iterable[Document]:
        text = read_text(path, lambda data: self.encoding, SAVE_OR_SET_ENCODING.format("csv"))
        declared = _SEPARATOR_LINE.match(text)
        delimiter = self.delimiter or (declared[1] if declared else find_delimiter(text) or ",")
        lines = io.StringIO(text[declared.end() if declared else 0 :])  # keeps line ends: cells may contain them
        try:
            table = [(n, row) for n, row in enumerate(csv_library.reader(lines, delimiter=delimiter), 1) if any(row)]
        except csv_library.Error as error:
            raise SourceError(f"is not a CSV table ({error})") from None
        if not table:
            return
        (top, names), *rows = table
        groups = _groups(names, text, document_id)
        width = max(len(row) for _, row in table)
        header = [name or f"column {i}" for i, name in enumerate(names + [""] * (width - len(names)), 1)]
        numbers = [number for number, _ in rows] or [top]
        made = ((numbered("row", numbers[a], numbers[b]), part) for a, b, part in parts(header, (r for _, r in rows)))
        text, places = joined(made)
        yield Document(document_id, text, path.stem, "markdown", acl=groups, places=places)


def _groups(names: list[str], text: str, document: str) -> tuple[str, ...]:
    """No list in a table restricts its rows, so a table with something that looks like one is left to the owner."""
    if name := access_name(names):
        return owner_only(document, f"it has the column {name!r}")
    return owner_if_alike(document, text)
