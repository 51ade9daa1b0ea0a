"""The versions of documents: their text, metadata and state, and the sets of documents that hold them; and the rows of
the catalogue as values.

Rows of which a sync makes one for each file, or a search one for each hit, are named tuples, which take a third of the
time.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from surefind.base.errors import StoreError
from surefind.base.types import Document, Place
from surefind.engine.store.database import (
    BLOCK,
    BLOCK_BITS,
    DIGESTED,
    VERSION,
    CatalogueFile,
    checksum,
    set_digest,
    text_checksum,
)

State = Literal["published", "retired"]
"""The state of a version."""


@dataclass(frozen=True, slots=True)
class Source:
    """A folder whose files are synced."""

    id: int
    root: Path
    name: str
    origin: str = ""
    """The URL that the files are fetched from, such as `git+https://host/repository@main`; empty for a plain folder."""
    revision: str = ""
    """The commit that was fetched from the origin."""


Facts = tuple[str, int, int | None, str]
"""The path, size, modification time and reader of a file. There is one for each file, so it has no names."""


class FileRow(NamedTuple):
    """The recorded facts of a file, from which a sync sees whether it has changed."""

    path: str
    size: int
    mtime_ns: int
    seen_ns: int
    sha256: str
    reader: str
    """The spec of the reader that read the file; empty if it was not recorded."""
    version: int
    """The version that was read from the file."""
    others: tuple[int, ...] = ()
    """More versions, if the file has several documents."""

    @property
    def rows(self) -> tuple[int, ...]:
        """All versions that were read from the file."""
        return self.version, *self.others


@dataclass(frozen=True, slots=True)
class ProblemRow:
    """A file, or a member of a file, that could not be read."""

    path: str
    """The path that is shown: the file, or the file and its member."""
    reason: str
    file: str
    size: int = -1
    """Size, times and reader are those of the attempt: while they stay the same, the file is not read again. A size of
    -1 means: try again."""
    mtime_ns: int = 0
    seen_ns: int = 0
    reader: str = ""


class Member(NamedTuple):
    """A version in a set of documents, with everything that a backend needs besides its chunks."""

    version: int
    document: str
    content: str
    """The hash of the document's content."""
    path: str
    metadata: str
    """The metadata as JSON."""
    acl: tuple[str, ...]


class NamedFile(NamedTuple):
    """A document that is published or retired, and its file."""

    document: str
    version: int
    source: int
    """The number of its source; 0 if it comes from none."""
    path: str


@dataclass(frozen=True, slots=True)
class About:
    """What a list of documents shows of a version."""

    document: str
    version: int
    title: str
    source: str
    """The name of the source; empty if the document is from none."""
    path: str
    length: int
    """The number of characters of its text."""
    created: str


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a document, as its history lists it."""

    number: int
    document: str
    title: str
    state: State
    author: str
    created: str
    length: int
    """The number of characters of its text."""
    generations: tuple[int, ...]
    """The numbers of the kept generations that hold it."""


@dataclass(frozen=True, slots=True)
class Generation:
    """A state of the knowledge base that readers see, from one commit to the next."""

    number: int
    created: str
    documents: int
    """How many documents it shows."""
    contents: int
    """The number of the set of documents that it shows. Two generations may show the same set."""
    author: str = ""
    reason: str = ""

    def is_replaced_by(self, later: Generation) -> bool:
        """Returns whether the next generation shows the same set with more indexes, as `Catalogue.show_again` adds."""
        same = (self.contents, self.reason) == (later.contents, later.reason)
        return same and not self.reason.startswith("rollback")


class ChunkEntry(NamedTuple):
    """A stored chunk, with the facts of its document."""

    document: str
    start: int
    end: int
    text: str
    headings: tuple[str, ...]
    context: str
    title: str
    metadata: dict[str, Any]
    version: int
    places: tuple[Place, ...] = ()
    """The source locations of the parts of its document."""
    source: int = 0
    """The number of the source that the document is from; 0 if it is from none."""
    path: str = ""
    lines: tuple[int, int] | None = None
    """The first and the last line of the text in the source file, if they are recorded."""


def document_of(row: Sequence[Any], text: str) -> Document:
    """Returns the document of a row of `versions`, with its text."""
    _, document_id, *_, title, markup, metadata, acl, places, _, _, _, _ = row
    return Document(
        document_id, text, title, markup, json.loads(metadata), groups_of(acl),
        tuple(Place(*place) for place in json.loads(places)) if places != "[]" else (),
    )  # fmt: skip


@lru_cache
def groups_of(acl: str) -> tuple[str, ...]:
    """Reads an access list. Many documents have the same one."""
    return tuple(json.loads(acl))


Item = TypeVar("Item")
LIVE = "added <= :s AND removed > :s"
"""The SQL condition on a row of `members` that set :s holds the version."""
_OF_SET = f"FROM members m JOIN versions v ON v.row = m.version WHERE {LIVE} ORDER BY v.id, v.row"
"""The end of an SQL statement that reads the versions of set :s, in order of document id."""
_BLOCKS_A_STATEMENT = 500
_LOST = "state = 'published' AND row NOT IN (SELECT version FROM members)"
"""The SQL condition that no set holds a version and that it is not retired."""
_COLUMNS = ", ".join((*VERSION, "digest"))
_digested = itemgetter(*map(VERSION.index, DIGESTED))
_MEMBER = f"v.row, v.digest, {', '.join(f'v.{name}' for name in DIGESTED)}"
_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True).encode
_ENDING = "ending"
"""The state of a retired version from its release to the commit."""


class Versions:
    """Reads and writes versions in the catalogue."""

    def __init__(self, database: CatalogueFile) -> None:
        self._database = database

    @property
    def _db(self) -> sqlite3.Connection:
        return self._database.db

    # ------------------------------------------------------------ writing

    def add(self, document: Document, content: str, file: Sequence[Any], contents: int, author: str = "") -> int:
        """Adds a version and returns its number. The set `contents` and later sets hold it. `file` is (source id, path,
        size, mtime_ns, seen_ns, sha256, reader)."""
        source, path, *_ = file
        metadata = json.dumps(dict(document.metadata), ensure_ascii=False) if document.metadata else "{}"
        places = json.dumps(document.places, ensure_ascii=False) if document.places else "[]"
        acl = json.dumps(document.acl) if document.acl else "[]"
        about = content, document.title, document.format, metadata, acl, places, len(document.text)
        created = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        cursor = self._db.execute(
            "INSERT INTO versions (id, source, path, size, mtime_ns, seen_ns, sha256, reader, content, title, format, "
            "metadata, acl, places, length, author, created, digest) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (document.id, *file, *about, author, created, checksum(document.id, source, path, *about)),
        )
        version = int(cursor.lastrowid or 0)
        starts = range(0, max(1, len(document.text)), BLOCK)
        blocks = [((version << BLOCK_BITS) + i, document.text[at : at + BLOCK]) for i, at in enumerate(starts)]
        self._db.executemany(
            "INSERT INTO texts (place, text, checksum) VALUES (?, ?, ?)",
            [(place, text, text_checksum(place, text)) for place, text in blocks],
        )
        self.hold(version, contents)
        return version

    def hold(self, version: int, contents: int) -> None:
        """Adds a version to this set and to later sets."""
        self._db.execute("INSERT OR IGNORE INTO members (version, added) VALUES (?, ?)", (version, contents))

    def release(self, versions: Iterable[int], contents: int) -> None:
        """Removes versions from this set and from later sets. The retirement of a retired version ends when the set is
        committed."""
        listed = list(versions)
        self._db.executemany(
            "UPDATE members SET removed = ? WHERE version = ? AND removed > ?",
            ((contents, version, contents) for version in listed),
        )
        self._db.executemany(
            "UPDATE versions SET state = ? WHERE row = ? AND state = 'retired'",
            ((_ENDING, version) for version in listed),
        )

    def end_retirements(self, state: State) -> None:
        """Sets the state of released retired versions: `published` after a commit, `retired` again without one."""
        self._db.execute("UPDATE versions SET state = ? WHERE state = ?", (state, _ENDING))

    def set_state(self, version: int, state: State) -> None:
        """Sets the state of a version."""
        self._db.execute("UPDATE versions SET state = ? WHERE row = ?", (state, version))

    def set_file(self, version: int, file: Sequence[Any]) -> None:
        """Assigns a file to a version: (source id, path, size, mtime_ns, seen_ns, sha256, reader)."""
        source, path, *_ = file
        document_id, _, _, *about = _digested(self._row(version))
        self._db.execute(
            "UPDATE versions SET (source, path, size, mtime_ns, seen_ns, sha256, reader, digest) "
            "= (?, ?, ?, ?, ?, ?, ?, ?) WHERE row = ?",
            (*file, checksum(document_id, source, path, *about), version),
        )

    def touch(self, row: FileRow, size: int, mtime_ns: int, seen_ns: int) -> None:
        """Records the new size and times of a file that was written again with the same content."""
        marks = ",".join("?" * len(row.rows))
        self._db.execute(
            f"UPDATE versions SET size = ?, mtime_ns = ?, seen_ns = ? WHERE row IN ({marks})",
            (size, mtime_ns, seen_ns, *row.rows),
        )

    def reread_file(self, version: int) -> None:
        """Makes the next sync read the file of a version again, as if it had changed."""
        self._db.execute(
            "UPDATE versions SET sha256 = '', mtime_ns = -1 "
            "WHERE (source, path) = (SELECT source, path FROM versions WHERE row = ?)",
            (version,),
        )

    def delete_unheld(self) -> list[int]:
        """Deletes the versions that no set holds, except drafts and retired versions. Returns their numbers."""
        lost = [row for (row,) in self._db.execute(f"SELECT row FROM versions WHERE {_LOST}")]
        for version in lost:
            self._db.execute(
                "DELETE FROM texts WHERE place >= ? AND place < ?", (version << BLOCK_BITS, (version + 1) << BLOCK_BITS)
            )
        self._db.executemany("DELETE FROM versions WHERE row = ?", ((version,) for version in lost))
        return lost

    # ------------------------------------------------------------ reading

    def held(self, contents: int) -> list[int]:
        """Returns the numbers of the versions that a set holds. SQLite joins them, so no row waits for Python."""
        joined = self._db.execute(
            f"SELECT group_concat(v.row) FROM members m JOIN versions v ON v.row = m.version WHERE {LIVE}",
            {"s": contents},
        ).fetchone()[0]
        return list(map(int, joined.split(","))) if joined else []

    def only_in(self, contents: int, other: int) -> list[int]:
        """Returns the numbers of the versions that one set holds and another one does not."""
        in_other = LIVE.replace(":s", ":o")
        rows = self._db.execute(
            f"SELECT version FROM members m WHERE {LIVE} AND NOT ({in_other}) AND NOT EXISTS "
            f"(SELECT 1 FROM members WHERE version = m.version AND {in_other})",
            {"s": contents, "o": other},
        )
        return [version for (version,) in rows]

    def members(self, contents: int) -> list[Member]:
        """Returns the versions of a set, in order of document id. Raises `DamagedError` if one of them is not what was
        stored, or the set has others."""
        members = self._members(_OF_SET, {"s": contents})
        self.check_set(contents, [member.version for member in members])
        return members

    def members_of(self, versions: Sequence[int]) -> list[Member]:
        """As `members`, for versions that may be of different sets."""
        rows = "FROM json_each(:rows) JOIN versions v ON v.row = json_each.value"
        members = self._members(rows, {"rows": json.dumps(list(versions))})
        return sorted(members, key=lambda member: member.document)  # with ORDER BY, SQLite reads every version

    def _members(self, of: str, values: Mapping[str, object]) -> list[Member]:
        members = []
        for row, digest, *about in self._db.execute(f"SELECT {_MEMBER} {of}", values):
            document_id, _, path, content, _, _, metadata, acl, _, _ = about
            if checksum(*about) != digest:
                raise self._differs(document_id)
            members.append(Member(row, document_id, content, path, metadata, groups_of(acl) if acl != "[]" else ()))
        return members

    def checked(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """Returns a row of `versions`, given with its digest, without the digest. Raises `DamagedError` if it differs
        from what was stored."""
        *values, digest = row
        if checksum(*_digested(values)) != digest:
            raise self._differs(values[1])
        return tuple(values)

    def _differs(self, document_id: object) -> StoreError:
        return self._database.damaged(f"the document {document_id!r} does not match its checksum")

    def _rows(self, rest: str = "", values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Returns the rows that `rest` selects, such as `WHERE row = ?`, after checking them."""
        return [self.checked(row) for row in self._db.execute(f"SELECT {_COLUMNS} FROM versions {rest}", values)]

    def digest(self, contents: int) -> int | None:
        """Returns the digest of a set of documents, as it was recorded when the set was committed; None before."""
        row = self._db.execute("SELECT digest FROM generations WHERE contents = ? LIMIT 1", (contents,)).fetchone()
        return int(row[0]) if row else None

    def check_set(self, contents: int, versions: Sequence[int]) -> None:
        """Raises `DamagedError` if a committed set does not hold exactly these versions."""
        if self.digest(contents) not in (None, set_digest(versions)):
            raise self._database.damaged("the list of the documents of a generation does not match its checksum")

    def of_no_source(self, contents: int) -> list[int]:
        """Returns the versions of a set whose source was removed; a rollback can bring such versions back. Source 0 is
        for documents that come from no folder."""
        rows = self._db.execute(
            f"SELECT v.row FROM versions v JOIN members m ON m.version = v.row WHERE {LIVE} AND v.source != 0 "
            "AND v.source NOT IN (SELECT id FROM sources)",
            {"s": contents},
        )
        return [row for (row,) in rows]

    def owner_of(self, document_id: str, contents: int) -> tuple[int, str] | None:
        """Returns the source id and the path from which a set has a document; None if it has no such document."""
        row = self._db.execute(
            f"SELECT v.source, v.path FROM versions v JOIN members m ON m.version = v.row WHERE v.id = :id AND {LIVE}",
            {"id": document_id, "s": contents},
        ).fetchone()
        return (int(row[0]), str(row[1])) if row else None

    def find(self, document_id: str, contents: int) -> int | None:
        """Returns the version of a document in a set; None if the set does not hold the document."""
        row = self._db.execute(
            f"SELECT v.row FROM versions v JOIN members m ON m.version = v.row WHERE v.id = :id AND {LIVE}",
            {"id": document_id, "s": contents},
        ).fetchone()
        return int(row[0]) if row else None

    def acl(self, version: int) -> tuple[str, ...]:
        """Returns the access list of a version, without reading its text."""
        *_, acl, _, _, _, _, _ = self._row(version)
        return groups_of(acl)

    def document(self, version: int) -> Document:
        """Returns the document of a version, with its text."""
        row = self._row(version)
        return document_of(row, self.text(version, 0, row[15]))

    def _row(self, version: int) -> tuple[Any, ...]:
        rows = self._rows("WHERE row = ?", (version,))
        if not rows:
            if self._db.execute("SELECT 1 FROM members WHERE version = ?", (version,)).fetchone():
                raise self._database.damaged(f"version {version} of a document is missing")
            raise StoreError(f"There is no version {version}. List the versions with: surefind history DOCUMENT.")
        return rows[0]

    def about(self, versions: Sequence[int]) -> list[About]:
        """Returns what a list shows of these versions, in their order. Versions that a writer has deleted are left
        out."""
        names = dict(self._db.execute("SELECT id, name FROM sources"))
        by_version: dict[int, About] = {}
        for few in batched(versions, _BLOCKS_A_STATEMENT):
            for row in self._rows(f"WHERE row IN ({','.join('?' * len(few))})", few):
                number, document_id, source, path, *_, title, _, _, _, _, length, _, _, created = row
                by_version[number] = About(document_id, number, title, names.get(source, ""), path, length, created)
        return [by_version[version] for version in versions if version in by_version]

    def text(self, version: int, start: int, end: int) -> str:
        """Returns a span of a version's text. Only the blocks that it touches are read."""
        return self.texts([(version, start, end)])[0]

    def texts(self, spans: Sequence[tuple[int, int, int]]) -> list[str]:
        """Returns the texts of (version, start, end) spans. Only the blocks that they touch are read, each once."""
        wanted = {at for span in spans for at in _blocks(*span)}
        by_version: dict[int, str] = {}
        for few in batched(sorted(wanted), _BLOCKS_A_STATEMENT):
            marks = ",".join("?" * len(few))
            rows = self._db.execute(f"SELECT place, text, checksum FROM texts WHERE place IN ({marks})", few)
            by_version.update((place, text) for place, text, seal in rows if seal == text_checksum(place, text))
        if len(by_version) < len(wanted):
            raise self._lost(min(wanted - by_version.keys()) >> BLOCK_BITS)
        parts = ("".join(by_version[at] for at in _blocks(*span)) for span in spans)
        return [
            text[start % BLOCK : start % BLOCK + max(0, end - start)]
            for text, (_, start, end) in zip(parts, spans, strict=True)
        ]

    def _lost(self, version: int) -> StoreError:
        """Returns the error for a version whose text is missing or damaged."""
        row = self._db.execute("SELECT id FROM versions WHERE row = ?", (version,)).fetchone()
        return self._database.damaged(f"the text of {repr(row[0]) if row else f'version {version}'} is not intact")

    def file_of(self, version: int) -> tuple[Any, ...]:
        """Returns the file of a version: (source id, path, size, mtime_ns, seen_ns, sha256, reader)."""
        row = self._db.execute(
            "SELECT source, path, size, mtime_ns, seen_ns, sha256, reader FROM versions WHERE row = ?", (version,)
        ).fetchone()
        return tuple(row)

    def titles(self, versions: Sequence[int]) -> dict[int, str]:
        """Returns the titles of versions, for lists of many. They are not checked: `about` does so, and reads more."""
        by_version: dict[int, str] = {}
        for few in batched(versions, _BLOCKS_A_STATEMENT):
            marks = ",".join("?" * len(few))
            by_version.update(self._db.execute(f"SELECT row, title FROM versions WHERE row IN ({marks})", few))
        return by_version

    def history(self, document: str, generations: Sequence[Generation]) -> list[Version]:
        """Returns the kept versions of a document, newest first."""
        return list(self._versions(self._rows("WHERE id = ? ORDER BY row", (document,)), generations))

    def retired_of(self, document: str) -> Version | None:
        """Returns the last version of a document, if somebody retired it."""
        rows = self._rows("WHERE id = ? AND state = 'retired' ORDER BY row", (document,))
        return next(self._versions(rows, ()), None)

    def in_state(self, states: Sequence[State], generations: Sequence[Generation]) -> list[Version]:
        """Returns the versions that are in one of these states, newest first."""
        rows = self._rows(f"WHERE state IN ({','.join('?' * len(states))}) ORDER BY row", states)
        return list(self._versions(rows, generations))

    def _versions(self, found: Sequence[tuple[Any, ...]], generations: Sequence[Generation]) -> Iterator[Version]:
        """Yields these rows as versions, the last one first."""
        held: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for few in batched([row[0] for row in found], _BLOCKS_A_STATEMENT):
            marks = ",".join("?" * len(few))
            rows = self._db.execute(f"SELECT version, added, removed FROM members WHERE version IN ({marks})", few)
            for version, added, removed in rows:
                held[version].append((added, removed))
        current = generations[-1].number if generations else 0
        for row, document_id, *_, title, _, _, _, _, length, _, author, created in reversed(found):
            inside = tuple(
                g.number for g in generations if any(added <= g.contents < removed for added, removed in held[row])
            )
            seen: State = "published" if current in inside else "retired"
            yield Version(row, document_id, title, seen, author, created, length, inside)


def _blocks(version: int, start: int, end: int) -> range:
    """Returns the keys of the blocks that hold a span."""
    at = version << BLOCK_BITS
    return range(at + start // BLOCK, at + (end - 1) // BLOCK + 1) if end > start else range(0)


def batched(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Yields the items in batches of `size`."""
    return (items[at : at + size] for at in range(0, len(items), size))


def content_hash(document: Document) -> str:
    """Hashes everything of a document except its id and places."""
    # As JSON. A list of strings takes json three times as long as the strings.
    texts = ", ".join(map(_encode, (document.title, document.format, document.text)))
    rest = (
        f"{_encode(dict(document.metadata))}, {_encode(document.acl)}"
        if document.metadata or document.acl
        else "{}, []"
    )
    return hashlib.blake2b(f"[{texts}, {rest}]".encode(), digest_size=16).hexdigest()
