"""`xlsx`: reads Excel: a section per sheet, tables with their header repeated. Hits name the sheet and rows.

A formula is read as its last computed value. A row with a single cell, at the beginning or after an empty row, is a
caption. The first row with several cells, at the beginning or after a caption, is a header. A cell merged over several
rows is repeated in each of them.
"""

from __future__ import annotations

import datetime as dt
import re
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree

from surefind.base.errors import SourceError
from surefind.base.spec import Stage
from surefind.base.types import Document
from surefind.engine.files.inside import access_name, owner_only
from surefind.engine.files.readers import FORMATS, need
from surefind.engine.ingest._tables import joined, numbered, parts
from surefind.engine.ingest.docx import check_package, package_title

Row = tuple[int, list[str]]
_NO_ROW: Row = (0, [])
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell\b[^<>]*\bref="([A-Z0-9:]+)"')


@dataclass(frozen=True)
class Xlsx(Stage):
    kind: ClassVar[str] = "read"
    name: ClassVar[str] = "xlsx"
    suffixes: ClassVar[tuple[str, ...]] = FORMATS["xlsx"].suffixes
    needs: ClassVar[tuple[str, ...]] = FORMATS["xlsx"].needs
    extra: ClassVar[str] = FORMATS["xlsx"].extra

    def read(self, path: Path, document_id: str) -> Iterable[Document]:
        need(self.needs, self.extra)
        check_package(path, "xl/workbook.xml", "an Excel file (.xlsx)")
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException

        try:
            book = load_workbook(path, read_only=True, data_only=True, keep_links=False)
            pieces = [part for sheet in book.worksheets for part in _sheet(sheet)]
        except (InvalidFileException, ElementTree.ParseError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise SourceError(f"is a damaged Excel file ({error})") from None
        column = next((column for _, _, column in pieces if column), "")
        groups = owner_only(document_id, column) if column else ()
        text, places = joined((place, text) for place, text, _ in pieces)
        yield Document(document_id, text, package_title(path) or path.stem, "markdown", acl=groups, places=places)


def _sheet(sheet: Any) -> Iterator[tuple[str, str, str]]:
    """Yields (place, Markdown, where there is a column that looks like an access list; empty if none does) of each part
    of a sheet. No list in a table restricts its rows."""
    where = f"sheet {sheet.title}"
    sheet.reset_dimensions()  # the declared size may be missing or far too large
    opening = f"# {sheet.title}\n\n"
    for (number, caption), (top, header), rows in _tables(_rows(sheet)):
        if caption:
            yield f"{where}, row {number}", f"{opening}{caption[0]}\n", ""
            opening = ""
        if not header:
            continue
        column = access_name(header)
        alike = f"row {top} of the sheet {sheet.title} has the column {column!r}" if column else ""
        width = max(len(values) for values in (header, *(values for _, values in rows)))
        names = [name or f"column {i}" for i, name in enumerate([*header, *[""] * (width - len(header))], 1)]
        for first, last, text in parts(names, (values for _, values in rows)):
            numbers = (rows[first][0], rows[last][0]) if rows else (top, top)
            place = numbered(f"{where}, row", *numbers)
            yield place, opening + text, alike
            opening = ""


def _rows(sheet: Any) -> Iterator[Row]:
    """Yields (number, values) of each row that is not empty."""
    merged = _merged(sheet)
    reaching: dict[int, tuple[str, int]] = {}  # column -> (value, last row)
    for number, row in enumerate(sheet.iter_rows(), 1):
        values = [_cell_text(cell) for cell in row]
        for column, last in merged.get(number, ()):
            if column < len(values) and values[column]:
                reaching[column] = values[column], last
        while values and not values[-1]:
            values.pop()
        if values:
            reaching = {column: to for column, to in reaching.items() if to[1] >= number}
            values += [""] * (max(reaching, default=-1) + 1 - len(values))
            yield number, [value or reaching.get(i, ("", 0))[0] for i, value in enumerate(values)]


def _merged(sheet: Any) -> dict[int, list[tuple[int, int]]]:
    """Maps the first row of merged cells to their columns and last rows. openpyxl does not offer this for a sheet that
    is read row by row, so it is read from the XML, where it follows the rows."""
    from openpyxl.utils import range_boundaries

    with sheet.parent._archive.open(sheet._worksheet_path) as source:
        content = source.read()
    merged: dict[int, list[tuple[int, int]]] = {}
    for name in _MERGED.findall(content, content.rfind(b"</sheetData>") + 1):
        bounds: Any = range_boundaries(name.decode())
        column, first, _, last = bounds
        if first < last:
            merged.setdefault(first, []).append((column - 1, last))
    return merged


def _tables(rows: Iterable[Row]) -> Iterator[tuple[Row, Row, list[Row]]]:
    """Yields (caption, header, rows) of each table. The caption or the header may be missing (without values)."""
    caption, header, held = _NO_ROW, _NO_ROW, list[Row]()
    before = 0
    for row in rows:
        number, values = row
        filled = [value for value in values if value]
        apart, before = number > before + 1, number
        if len(filled) == 1 and (apart or not header[1]):
            if caption[1] or header[1]:
                yield caption, header, held
            caption, header, held = (number, filled), _NO_ROW, []
        elif not header[1]:
            header = row
        else:
            held.append(row)
    if caption[1] or header[1]:
        yield caption, header, held


def _cell_text(cell: Any) -> str:
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return value.date().isoformat()
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, float):
        if "%" in (cell.number_format or ""):
            return f"{value * 100:.10g}%"
        return f"{value:.15g}"
    return str(value).replace("\r\n", "\n").replace("_x000D_", "")
