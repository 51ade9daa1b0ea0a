"""The facts of each chunk, as a table of rows: names, links, definitions, relations.

A row is (kind, subject, object, place). Subject and object are the numbers of strings:

    MENTION   name, -, sentence        TITLE    the document's title, -, -     ALIAS     short name, long name, -
    HEADING   heading above, -, -      LINK     document linked to, -, -       RELATION  entity, entity, relation
    TYPE      name, its type, -
    NAMED     another document's title that the text names, -, -               LEAD      how the text begins, -, -

Strings are numbered in alphabetical order and rows are in the order of the chunks, so the table depends on the chunks
alone.

Decides when two names are the same, and finds known names in text.
"""

from __future__ import annotations

import json
import posixpath
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from surefind.base.disk.arrays import check_length, check_offsets, check_range, read_array, strings
from surefind.base.protocols import Extractor, Progress, Services
from surefind.base.text.blocks import linked_path
from surefind.base.text.words import MARKS, sentence_spans, spaced
from surefind.base.types import BoolArray, Chunk, Extraction, IntArray, Mask

_RUN = re.compile(rf"[^\W_]+(?:[{MARKS}]+[^\W_]*)*")
_POSSESSIVE = re.compile(r"['’]s\b|['’](?=\W|$)")
_BRACKET = re.compile(r"(?<!\s)\s*\([^)]{0,500}\)\s*$")
_ARTICLES = ("the", "a", "an")


@lru_cache(maxsize=1 << 17)
def key_of(name: str) -> str:
    """The key of a name: `The Rolling Stones'` and `ROLLING STONES` -> rolling stones. A lower-case phrase is also put
    into the singular."""
    words = _RUN.findall(_POSSESSIVE.sub("", name).casefold())
    while len(words) > 1 and words[0] in _ARTICLES:
        words = words[1:]
    if words and name.islower():
        words[-1] = _singular(words[-1])
    return " ".join(words)


def _singular(word: str) -> str:
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    return f"{word[:-3]}y" if word.endswith("ies") else word[:-1]


def title_forms(title: str) -> list[str]:
    """A title and its short form: `Rush (band)` is also called `Rush`."""
    short = _BRACKET.sub("", title)
    return list({key_of(form): form for form in (short, title) if key_of(form)}.values())


class Lexicon:
    """Finds names in running text by bisection in their sorted keys, without any other table."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = keys

    def find(self, text: str) -> Iterator[tuple[int, int, int]]:
        """Every run of words that is a known name: (first word, end, number of the name). Runs may overlap.

        A single word must be written like a name, with a capital or a digit, unless the whole text is in lower case.
        The last word of a longer run is looked up as written and in the singular; both may be found, so that one known
        name never hides another.
        """
        words = _RUN.findall(_POSSESSIVE.sub("", spaced(text)))
        lower = [word.casefold() for word in words]
        plain = lower == words
        for start, word in enumerate(lower):
            at, run, end = self._at(word), word, start + 1
            if self._is(at, word) and (plain or not words[start].islower()):
                yield start, end, at
            # In sorted order, longer keys that begin with this run come right after it. While there are any, extend it.
            while end < len(lower) and self._goes_on(run):
                last = lower[end]
                end += 1
                for form in sorted({f"{run} {last}", f"{run} {_singular(last)}"}):
                    at = self._at(form)
                    if self._is(at, form):
                        yield start, end, at
                run = f"{run} {last}"

    def _at(self, key: str) -> int:
        return bisect_left(self.keys, key)

    def _is(self, at: int, key: str) -> bool:
        return at < len(self.keys) and self.keys[at] == key

    def _goes_on(self, run: str) -> bool:
        at = self._at(f"{run} ")
        return at < len(self.keys) and self.keys[at].startswith(f"{run} ")


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
