"""Reads questions without gold from search logs, chat exports, ticket exports and FAQ tables.

CSV with commas, semicolons, tabs or bars; JSONL, or a JSON list; any other file is plain text with a question a line.
The column is found by its usual name (`COLUMNS`), or given. A table without a header has one column, or `--column 2`
names its second one. Messages of an assistant in a chat export are left out.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from surefind.base.errors import ExamError, choices
from surefind.base.text.words import find_delimiter
from surefind.lab.exam.formats.library import read_json

COLUMNS = ("question", "query", "text", "subject", "title", "body", "message", "content", "prompt")
"""The usual names of the column with the questions; the first one that a file has is used."""
_TABLES = (".csv", ".tsv", ".tab")
_JSON = (".jsonl", ".ndjson", ".json")
_NO_DELIMITER = "\x1f"
"""The delimiter of a table with one column: a character that no text has, so that commas are part of the questions."""
_EXCEL = re.compile(r"sep=([,;\t|])\r?\n", re.IGNORECASE)
"""The first line with which Excel names the delimiter."""
_MAX_CELL_CHARS = 1 << 24
_ABOUT = frozenset("author by count date hash id ids key lang language length number time type url user".split())
"""Words of columns that say something about a question, such as `question_id`."""
_NOT_A_USER = frozenset({"assistant", "bot", "system", "tool", "agent"})


def read_questions(path: Path, column: str = "") -> list[str]:
    """Returns the texts of a file in its order, as they are, with repeats."""
    text = _decoded(path)
    suffix = path.suffix.lower()
    if suffix in _TABLES:
        return _of_table(path, text, column)
    if suffix in _JSON:
        return _of_rows(path, list(_json_rows(path, text)), column)
    if column:
        raise ExamError(f"{path} is read as plain text, which has no columns. Leave out --column, or name it .csv.")
    return [line for line in text.splitlines() if line.strip()]


def _decoded(path: Path) -> str:
    """Reads UTF-8, UTF-16 with a byte-order mark, or else Windows-1252, in which Excel saves CSV files."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ExamError(f"{path} cannot be read ({error}).") from None
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


# ---------------------------------------------------------------- tables


def _of_table(path: Path, text: str, column: str) -> list[str]:
    told = _EXCEL.match(text)
    rows = _parsed(path, text[told.end() :], told[1]) if told else _parsed(path, text, delimiter_of(text))
    if not rows:
        return []
    header = [cell.strip() for cell in rows[0]]
    if column.isdigit() and column not in header:
        at = int(column) - 1
        if not 0 <= at < max(map(len, rows)):
            raise ExamError(f"{path} has {max(map(len, rows))} columns, so there is no column {column}.")
        return [row[at] for row in rows if at < len(row)]
    chosen = _chosen(path, header, column, optional=len(header) == 1)
    if not chosen:
        return [row[0] for row in rows]
    at = header.index(chosen)
    role = next((i for i, cell in enumerate(header) if cell.lower() == "role"), len(header))
    asked = [row for row in rows[1:] if not _other(row[role] if role < len(row) else "")]
    return [row[at] for row in asked if at < len(row)]


def delimiter_of(text: str) -> str:
    """Finds the delimiter of a table; one that no text has if the table has one column."""
    return find_delimiter(text, _is_usual) or _NO_DELIMITER


def _parsed(path: Path, text: str, delimiter: str) -> list[list[str]]:
    before = csv.field_size_limit(_MAX_CELL_CHARS)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        return [row for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise ExamError(f"{path}, line {reader.line_num}: not a table ({error}).") from None
    finally:
        csv.field_size_limit(before)


# ---------------------------------------------------------------- JSON


def _json_rows(path: Path, text: str) -> Iterator[Any]:
    """Yields the rows of JSON lines, of a JSON list, or of the longest list in a JSON object."""
    if path.suffix.lower() == ".json":
        try:
            parsed = read_json(text)
        except ValueError as error:
            raise ExamError(f"{path} is not JSON ({error}). Name a file with an object a line .jsonl.") from None
        if isinstance(parsed, dict):
            parsed = max((value for value in parsed.values() if isinstance(value, list)), key=len, default=[])
        yield from parsed if isinstance(parsed, list) else []
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield read_json(line)
            except ValueError as error:
                raise ExamError(f"{path}, line {number}: not JSON ({error}).") from None


def _of_rows(path: Path, rows: Sequence[Any], column: str) -> list[str]:
    """Returns the texts of JSON rows, which are objects or strings."""
    objects = [row for row in rows if isinstance(row, dict)]
    seen = Counter(str(key) for row in objects for key, value in row.items() if isinstance(value, str))
    chosen = _chosen(path, list(seen), column) if objects else ""
    return [text for row in rows if (text := _text(row, chosen)) is not None]


def _text(row: Any, column: str) -> str | None:
    if isinstance(row, str):
        return row
    if not isinstance(row, Mapping) or _other(row.get("role", "")) or not isinstance(row.get(column), str):
        return None
    return str(row[column])


# ---------------------------------------------------------------- columns


def _chosen(path: Path, names: Sequence[str], column: str, optional: bool = False) -> str:
    """Returns the column with the questions: the given one, else the first with a usual name, or with one in its
    name (`Ticket subject`, but not `Question id`). With `optional`, an empty result means that there is no header."""
    by_name = {name.lower(): name for name in reversed(names) if name}
    if column:
        if column.lower() in by_name:
            return by_name[column.lower()]
        raise ExamError(f"{path} has no column {column!r}. {choices(column, by_name.values())}")
    for usual in COLUMNS:
        named = [name for lower, name in by_name.items() if usual in _words(lower) and not _words(lower) & _ABOUT]
        if usual in by_name or named:
            return by_name.get(usual) or named[-1]
    if optional:
        return ""
    raise ExamError(
        f"{path} has no column with a usual name ({', '.join(COLUMNS)}); it has: {', '.join(names)}. "
        "Name the column with --column, or its number if there is no header."
    )


def _is_usual(cell: str) -> bool:
    words = _words(cell.strip().lower())
    return len(words) <= 3 and bool(words & set(COLUMNS))


def _words(name: str) -> set[str]:
    return set(re.split(r"[^a-z0-9]+", name))


def _other(role: object) -> bool:
    return str(role).strip().lower() in _NOT_A_USER
