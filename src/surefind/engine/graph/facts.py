"""The facts of each chunk, as a table of rows: names, links, definitions, relations.

A row is (kind, subject, object, place). Subject and object are the numbers of strings:

    MENTION   name, -, sentence        TITLE    the document's title, -, -     ALIAS     short name, long name, -
    HEADING   heading above, -, -      LINK     document linked to, -, -       RELATION  entity, entity, relation
    TYPE      name, its type, -
    NAMED     another document's title that the text names, -, -               LEAD      how the text begins, -, -

Strings are numbered in alphabetical order and rows are in the order of the chunks, so the table depends on the chunks
alone.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from surefind.base.disk.arrays import check_length, check_offsets, check_range, read_array, strings
from surefind.base.protocols import Extractor, Progress, Services
from surefind.base.text.links import linked_path
from surefind.base.text.sentences import sentence_spans
from surefind.base.types import BoolArray, Chunk, Extraction, IntArray, Mask
from surefind.engine.graph.names import Lexicon, key_of, title_forms

MENTION, HEADING, TITLE, LINK, NAMED, ALIAS, RELATION, LEAD, TYPE = range(9)
NOTHING = -1
_LINKED = re.compile(r"(?<!!)\[[^\[\]\n]*\]\(\s*<?([^)\s>#]+)")
_LINKED_TEXT = re.compile(r"!?\[([^\[\]\n]*)\]\([^)\n]{0,500}\)")
_HEADING_LINE = re.compile(r"^#+ .*$", re.MULTILINE)
_SUFFIX = re.compile(r"\.\w{1,8}$")
_ARRAYS = {"starts": np.int32, "rows": np.int32, "documents": np.int32, "key_numbers": np.int32, "lower": np.bool_}
_LEAD = 160
"""Most characters of a chunk's first sentence that are stored, for summaries."""

Row = tuple[int, str, str | None, int | str]


class Facts:
    """`rows[starts[i]:starts[i + 1]]` are the facts of chunk i: columns kind, subject, object, place."""

    def __init__(
        self,
        strings: list[str] | Path,
        keys: list[str],
        starts: Any,
        rows: Any,
        documents: Any,
        key_numbers: Any,
        lower: Any,
    ) -> None:
        self._strings = strings
        self.keys = keys
        """The distinct keys (`key_of`) of all strings, in alphabetical order."""
        self.starts: IntArray = starts
        self.rows: IntArray = rows
        self.documents: IntArray = documents
        """The number of the string by which links name each chunk's document."""
        self.key_numbers: IntArray = key_numbers
        """The number of each string's key."""
        self.lower: BoolArray = lower
        """Whether each string is in lower case."""

    @cached_property
    def strings(self) -> list[str]:
        """All strings, read from disk at the first use: a search needs only the keys."""
        if isinstance(self._strings, list):
            return self._strings
        texts = strings("strings", json.loads(self._strings.read_text(encoding="utf-8")))
        check_length("strings", texts, len(self.key_numbers))
        return texts

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def build(
        cls,
        chunks: Sequence[Chunk],
        extractor: Extractor,
        services: Services,
        earlier: Facts | None = None,
        origin: IntArray | None = None,
        progress: Progress | None = None,
        context: bool = False,
    ) -> Facts:
        """Reads the facts of the chunks; with `context`, the extractor reads the context of a chunk before its text.
        Facts of chunks with an `origin` are copied from `earlier`, except the titles that they name, because the titles
        may be new."""
        fresh = [i for i in range(len(chunks)) if earlier is None or origin is None or origin[i] < 0]
        texts = [chunks[i].searchable if context else chunks[i].text for i in fresh]
        extracted = extractor.extract(texts, services, progress)
        own = dict(zip(fresh, extracted, strict=True))
        titles = {form for chunk in chunks for form in title_forms(chunk.title)}
        lexicon = Lexicon(sorted({key_of(title) for title in titles}))
        table = []
        for i, chunk in enumerate(chunks):
            if i in own:
                rows = list(_own_rows(chunk, own[i]))
            elif earlier is not None and origin is not None:
                rows = earlier.rows_of(int(origin[i]))
            table.append([*rows, *_named(chunk, lexicon)])
        return cls._numbered(table, [_page(chunk.document) for chunk in chunks])

    @classmethod
    def _numbered(cls, table: list[list[Row]], documents: list[str]) -> Facts:
        used = set(documents)
        for rows in table:
            for _, subject, thing, place in rows:
                used.update(text for text in (subject, thing, place) if isinstance(text, str))
        strings = sorted(used)
        number = {text: i for i, text in enumerate(strings)}
        flat = [
            (kind, number[a], NOTHING if b is None else number[b], number[c] if isinstance(c, str) else c)
            for rows in table
            for kind, a, b, c in rows
        ]
        starts = np.concatenate([[0], np.cumsum([len(rows) for rows in table], dtype=np.int64)]).astype(np.int32)
        ids = np.array([number[document] for document in documents], np.int32)
        by_string = [key_of(text) for text in strings]
        keys = sorted(set(by_string))
        places = {key: i for i, key in enumerate(keys)}
        key_numbers = np.array([places[key] for key in by_string], np.int32)
        lower = np.array([text.islower() for text in strings], np.bool_)
        return cls(strings, keys, starts, np.array(flat, np.int32).reshape(-1, 4), ids, key_numbers, lower)

    def rows_of(self, chunk: int) -> list[Row]:
        """The rows of a chunk as strings, without the titles that it names."""
        rows: list[Row] = []
        for kind, a, b, c in self.rows[self.starts[chunk] : self.starts[chunk + 1]].tolist():
            if kind != NAMED:
                thing = None if b == NOTHING else self.strings[b]
                rows.append((kind, self.strings[a], thing, self.strings[c] if kind == RELATION else c))
        return rows

    def of(self, allow: Mask) -> tuple[IntArray, IntArray]:
        """The rows of the allowed chunks, and the chunk of each row."""
        chunk = np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.starts))
        if allow.bits is None:
            return self.rows, chunk
        kept = allow.bits[chunk]
        return self.rows[kept], chunk[kept]

    def save(self, folder: Path) -> None:
        for name in ("strings", "keys"):
            text = json.dumps(getattr(self, name), ensure_ascii=False)
            (folder / f"facts-{name}.json").write_text(text, encoding="utf-8")
        for name in _ARRAYS:
            np.save(folder / f"facts-{name}.npy", getattr(self, name))

    @classmethod
    def load(cls, folder: Path) -> Facts:
        """Reads the table, and checks that all numbers in it are numbers of strings, rows and keys."""
        keys = strings("keys", json.loads((folder / "facts-keys.json").read_text(encoding="utf-8")))
        starts, rows, documents, key_numbers, lower = (
            read_array(folder / f"facts-{name}.npy", dtype, 2 if name == "rows" else 1, mapped=False)
            for name, dtype in _ARRAYS.items()
        )
        count = len(key_numbers)
        check_length("columns", rows.T, 4)
        check_offsets("starts", starts, len(documents), len(rows))
        check_range("kinds", rows[:, 0], 0, TYPE + 1)
        check_range("subjects", rows[:, 1], 0, count)
        check_range("objects", rows[:, 2], NOTHING, count)
        check_range("places", rows[:, 3], NOTHING, 1 << 31)
        check_range("relations", rows[rows[:, 0] == RELATION, 3], 0, count)
        check_range("documents", documents, 0, count)
        check_range("key_numbers", key_numbers, 0, len(keys))
        check_length("lower", lower, count)
        return cls(folder / "facts-strings.json", keys, starts, rows, documents, key_numbers, lower)


def _own_rows(chunk: Chunk, extraction: Extraction) -> Iterator[Row]:
    for mention in extraction.mentions:
        if key_of(mention.name):
            yield MENTION, mention.name, None, mention.sentence
            if mention.type:
                yield TYPE, mention.name, mention.type, NOTHING
    for short, long in extraction.aliases:
        yield ALIAS, short, long, NOTHING
    for head, relation, tail in extraction.relations:
        yield RELATION, head, tail, relation
    for heading in chunk.headings:
        if key_of(heading) and heading != chunk.title:
            yield HEADING, heading, None, NOTHING
    for title in title_forms(chunk.title) or [posixpath.basename(_page(chunk.document))]:
        yield TITLE, title, None, NOTHING
    if lead := _lead(chunk.text):
        yield LEAD, lead, None, NOTHING
    for target in _LINKED.findall(chunk.text):
        document = resolve(chunk.document, target)
        if document:
            yield LINK, document, None, NOTHING


def _lead(text: str) -> str:
    body = _LINKED_TEXT.sub(r"\1", _HEADING_LINE.sub("", text))
    start, end = next(iter(sentence_spans(body, 0, len(body))), (0, 0))
    return " ".join(body[start:end].split())[:_LEAD]


def resolve(document: str, target: str) -> str:
    """The page that a link in a document points at, without its suffix; "" for a URL."""
    return _page(linked_path(document, target))


def _page(document: str) -> str:
    """The document's path without its suffix, because links may name `runbooks/eod.md` as eod.md, eod.html or eod."""
    return _SUFFIX.sub("", document)


def _named(chunk: Chunk, titles: Lexicon) -> Iterator[Row]:
    """The titles of other documents that the text names. They are stored in capitals, so that `key_of` removes no
    plural and gives back the same key."""
    own = {key_of(form) for form in title_forms(chunk.title)}
    for key in sorted({titles.keys[number] for _, _, number in titles.find(chunk.text)} - own):
        yield NAMED, key.upper(), None, NOTHING
