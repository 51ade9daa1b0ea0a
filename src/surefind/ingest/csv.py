"""`csv(delimiter="", encoding="")`: a table, its header repeated every so many rows. Rows are its places.

The delimiter is found out among comma, semicolon, tab and bar unless it is given; the encoding is UTF-8, or what a
byte order mark says, unless it is given, for example `cp1252` for files that came out of old spreadsheets.
"""

from __future__ import annotations

import csv as csv_library
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from surefind.errors import SourceError
from surefind.ingest._decode import read_text
from surefind.ingest._places import joined, numbered
from surefind.ingest._tables import parts
from surefind.spec import Stage, require
from surefind.types import Document

_SAMPLE = 8192
_DELIMITERS = ",;\t|"


@dataclass(frozen=True)
class Csv(Stage):
    kind: ClassVar[str] = "read"
    name: ClassVar[str] = "csv"
    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv")
    isolated: ClassVar[bool] = True

    delimiter: str = ""
    encoding: str = ""

    def __post_init__(self) -> None:
        require(len(self.delimiter) <= 1, self, "delimiter must be one character")

    def read(self, path: Path, id: str) -> Iterable[Document]:
        text = read_text(path, self.encoding)
        try:
            rows = [row for row in csv_library.reader(text.split("\n"), delimiter=self._delimiter(text)) if any(row)]
        except csv_library.Error as error:
            raise SourceError(f"is not a table in CSV ({error})") from None
        if not rows:
            return
        width = max(map(len, rows))
        header = [name or f"column {i}" for i, name in enumerate(rows[0] + [""] * (width - len(rows[0])), 1)]
        text, places = joined((numbered("row", a + 2, b + 2), piece) for a, b, piece in parts(header, rows[1:]))
        yield Document(id, text, path.stem, "markdown", places=places)

    def _delimiter(self, text: str) -> str:
        if self.delimiter:
            return self.delimiter
        try:
            return csv_library.Sniffer().sniff(text[:_SAMPLE], _DELIMITERS).delimiter
        except csv_library.Error:
            return ","
