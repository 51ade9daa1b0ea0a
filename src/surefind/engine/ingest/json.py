"""`json(records="", id="", title="", text=[])`: reads each record of a .json, .jsonl or .ndjson file as a document.

The items of a list, or the lines of a .jsonl, are records; any other value is one record. `records="data.items"` is the
path of the list in the file, and `title="fields.summary"` the path of a field in a record: names joined by dots.
Without `title`, `id` and `text` the usual names are tried. If a record has no field for the text, the whole record is
written out as Markdown. Fields with short plain values, and `acl`, become metadata for filters.
"""

from __future__ import annotations

import json as json_library
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from surefind.base.errors import SourceError
from surefind.base.spec import Stage
from surefind.base.types import Document
from surefind.engine.files.inside import IN_RECORD, access_name, complain, guarded, is_access_key, owner_only
from surefind.engine.files.readers import FORMATS
from surefind.engine.ingest._access_list import record_groups
from surefind.engine.ingest._decode import read_text, unique_keys

_IDS = ("id", "_id", "key", "uuid")
_TITLES = ("title", "name", "subject", "heading", "question", "summary")
_TEXTS = ("text", "body", "content", "answer", "description")
_DEEPEST_HEADING = 6
_NOTHING: tuple[Any, ...] = (None, "", [], {})


@dataclass(frozen=True)
class Json(Stage):
    kind: ClassVar[str] = "read"
    name: ClassVar[str] = "json"
    suffixes: ClassVar[tuple[str, ...]] = FORMATS["json"].suffixes
    checks_access: ClassVar[bool] = True

    records: str = ""
    id: str = ""
    title: str = ""
    text: tuple[str, ...] = ()

    def read(self, path: Path, document_id: str) -> Iterable[Document]:
        content = read_text(path)
        lines = path.suffix.lower() in (".jsonl", ".ndjson")
        parsed = None if lines else _parsed(content)
        records = list(_lines(content)) if lines else self._records(parsed)
        closed = self._beside(parsed, document_id)
        taken: set[str] = set()
        without: list[int] = []
        for number, record in records:
            name = self._id(record, number)
            while name in taken:
                name = f"{name}-{number}"
            taken.add(name)
            whole = f"{document_id}#{name}" if lines or len(records) > 1 else document_id
            where = f"{'line' if lines else 'record'} {number}"
            document = self._document(record, whole, "" if whole != document_id else path.stem, where)
            if document:
                yield replace(document, acl=closed) if closed else guarded(document, where, IN_RECORD)
            else:
                without.append(number)
        if without:
            self._complain(without, len(records))

    def _complain(self, without: Sequence[int], records: int) -> None:
        """Reports the records without text. It is an error only if all records lack text: then `text` is a mistake."""
        named = " or ".join(map(repr, self.text))
        if len(without) == records:
            raise SourceError(f"has no field {named} in any record; check readers in surefind.toml")
        some = f"{len(without)} of {records} records"
        complain(f"has no field {named} in {some}, which are left out; the first is record {without[0]}")

    def _records(self, value: Any) -> list[tuple[int, Any]]:
        if self.records:
            value = _at(value, self.records)
            if value is None:
                raise SourceError(f"has no records at {self.records!r}; check readers in surefind.toml")
        return list(enumerate(value, 1)) if isinstance(value, list) else [(1, value)]

    def _beside(self, value: Any, document: str) -> tuple[str, ...]:
        """A field beside the records that looks like an access list may be meant for all of them, so nobody but the
        owner may read any."""
        for step in filter(None, self.records.split(".")):
            if name := access_name(map(str, value)) if isinstance(value, Mapping) else "":
                return owner_only(f"what is in {document}", f"it has the field {name!r} beside its records")
            value = _at(value, step)
        return ()

    def _id(self, record: Any, number: int) -> str:
        record_id = _first(record, (self.id,) if self.id else _IDS)
        return str(number if record_id is None else record_id)

    def _document(self, record: Any, document_id: str, fallback: str, where: str) -> Document | None:
        """Makes the document of a record. Returns None if the record has none of the fields in `text`."""
        title = str(_first(record, (self.title,) if self.title else _TITLES) or fallback)
        fields = [_at(record, name) for name in self.text] or [_first(record, _TEXTS)]
        texts = [value if isinstance(value, str) else _markdown(value) for value in fields if value not in _NOTHING]
        if self.text and not texts:
            return None
        body = "\n\n".join(texts) if texts else _markdown(record)
        groups = record_groups(record, document_id, where) if isinstance(record, Mapping) else ()
        text = body.replace("\r\n", "\n").replace("\r", "\n")
        return Document(document_id, text, title, "markdown", _metadata(record), groups)


def _parsed(content: str) -> Any:
    try:
        return _loads(content)
    except ValueError as error:
        raise SourceError(f"is not JSON: {error}") from None


def _loads(text: str) -> Any:
    return json_library.loads(text, object_pairs_hook=unique_keys)


def _lines(content: str) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(content.split("\n"), 1):
        if line.strip():
            try:
                yield number, _loads(line)
            except ValueError as error:
                raise SourceError(f"is not JSON at line {number}: {error}") from None


def _at(value: Any, path: str) -> Any:
    """Returns the value at a path such as `fields.labels.0`, or None."""
    for step in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _first(record: Any, names: Sequence[str]) -> Any:
    values = (_at(record, name) for name in names)
    return next((value for value in values if isinstance(value, str | int) and value != ""), None)


def _metadata(record: Any) -> dict[str, Any]:
    """The fields with short plain values or lists of them, and `acl`."""
    if not isinstance(record, Mapping):
        return {}
    return {str(key): value for key, value in record.items() if is_access_key(str(key)) or _short(value)}


def _short(value: Any) -> bool:
    if isinstance(value, list):
        return all(not isinstance(item, list) and _short(item) for item in value)
    return isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= 200 and "\n" not in value)


def _markdown(value: Any, level: int = 2) -> str:
    """Writes a value as Markdown: plain fields as a list, nested ones under their own headings."""
    if isinstance(value, list):
        if all(not isinstance(item, list | Mapping) for item in value):
            return "".join(f"- {_plain(item)}\n" for item in value)
        return "\n".join(_markdown(item, level) for item in value)
    if not isinstance(value, Mapping):
        return f"{_plain(value)}\n"
    mark = "#" * min(level, _DEEPEST_HEADING)
    nested = {key: item for key, item in value.items() if isinstance(item, list | Mapping) and item}
    flat = "".join(f"- {key}: {_plain(item)}\n" for key, item in value.items() if key not in nested)
    return (
        "\n".join([flat, *(f"{mark} {key}\n\n{_markdown(item, level + 1)}" for key, item in nested.items())]).strip()
        + "\n"
    )


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json_library.dumps(value, ensure_ascii=False)
