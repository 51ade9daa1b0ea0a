"""Versions of documents: their text, what is said of them, their state, and which sets of documents hold them."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from surefind.errors import StoreError
from surefind.store._database import BLOCK, BLOCK_BITS, Database
from surefind.store.rows import FileRow, Generation, Member, State, Version
from surefind.types import Document, Place

LIVE = "added <= :s AND removed > :s"
"""Of a row of `members`: whether set :s holds the version."""
_MOST = 500
"""Blocks of text that are read by one statement."""
_LOST = "state = 'published' AND row NOT IN (SELECT version FROM members)"
"""A version that no set holds and nobody is working on."""
_WAITING: tuple[State, ...] = ("draft", "in review")
_ENDING = "ending"
"""The state of a retired version that was released, until that is committed."""


class Versions:
    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def _db(self) -> sqlite3.Connection:
        return self._database.db

    # ------------------------------------------------------------ writing

    def add(
        self,
        document: Document,
        content: str,
        file: Sequence[Any],
        contents: int | None,
        state: State = "published",
        author: str = "",
    ) -> int:
        """A new version, held by the set `contents` and those after it; by none where that is None. `file` is (source
        id, path, size, mtime_ns, seen_ns, sha256, reader). Returns its number."""
        cursor = self._db.execute(
            "INSERT INTO versions (id, source, path, size, mtime_ns, seen_ns, sha256, reader, content, title, format, "
            "metadata, acl, places, length, state, author, created) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                document.id, *file, content, document.title, document.format,
                json.dumps(dict(document.metadata), ensure_ascii=False), json.dumps(document.acl),
                json.dumps(document.places, ensure_ascii=False), len(document.text), state, author,
                time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            ),
        )  # fmt: skip
        version = int(cursor.lastrowid or 0)
        text = document.text
        self._db.executemany(
            "INSERT INTO texts VALUES (?, ?)",
            (
                ((version << BLOCK_BITS) + number, text[at : at + BLOCK])
                for number, at in enumerate(range(0, max(1, len(text)), BLOCK))
            ),
        )
        if contents is not None:
            self.hold(version, contents)
        return version

    def hold(self, version: int, contents: int) -> None:
        """Have this set, and those after it, hold a version."""
        self._db.execute("INSERT OR IGNORE INTO members (version, added) VALUES (?, ?)", (version, contents))

    def release(self, versions: Iterable[int], contents: int) -> None:
        """From this set on, these versions are in no set. One that somebody had retired has no say any more, once the
        set is committed."""
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
        """What becomes of retired versions that were released: `published` at a commit, `retired` again without."""
        self._db.execute("UPDATE versions SET state = ? WHERE state = ?", (state, _ENDING))

    def set_state(self, version: int, state: State) -> None:
        self._db.execute("UPDATE versions SET state = ? WHERE row = ?", (state, version))

    def set_file(self, version: int, file: Sequence[Any]) -> None:
        """Have a version stand for a file: (source id, path, size, mtime_ns, seen_ns, sha256, reader)."""
        self._db.execute(
            "UPDATE versions SET (source, path, size, mtime_ns, seen_ns, sha256, reader) = (?, ?, ?, ?, ?, ?, ?) "
            "WHERE row = ?",
            (*file, version),
        )

    def touch(self, row: FileRow, size: int, mtime_ns: int, seen_ns: int) -> None:
        """The file was written again with the same content."""
        marks = ",".join("?" * len(row.rows))
        self._db.execute(
            f"UPDATE versions SET size = ?, mtime_ns = ?, seen_ns = ? WHERE row IN ({marks})",
            (size, mtime_ns, seen_ns, *row.rows),
        )

    def distrust(self, version: int) -> None:
        """The file of a document is to be taken in again at the next sync, as if it had changed."""
        self._db.execute(
            "UPDATE versions SET sha256 = '', mtime_ns = -1 "
            "WHERE (source, path) = (SELECT source, path FROM versions WHERE row = ?)",
            (version,),
        )

    def delete_lost(self) -> list[int]:
        """Delete versions that no set holds. Drafts, and what somebody retired, stay."""
        lost = [row for (row,) in self._db.execute(f"SELECT row FROM versions WHERE {_LOST}")]
        for version in lost:
            self._db.execute(
                "DELETE FROM texts WHERE place >= ? AND place < ?", (version << BLOCK_BITS, (version + 1) << BLOCK_BITS)
            )
        self._db.executemany("DELETE FROM versions WHERE row = ?", ((version,) for version in lost))
        return lost

    # ------------------------------------------------------------ reading

    def members(self, contents: int) -> list[Member]:
        """The versions of a set, in order of document id."""
        rows = self._db.execute(
            "SELECT v.row, v.id, v.content, v.path, v.metadata, v.acl FROM members m JOIN versions v "
            f"ON v.row = m.version WHERE {LIVE} ORDER BY v.id, v.row",
            {"s": contents},
        )
        return [
            Member(row, id, content, path, metadata, tuple(json.loads(acl)) if acl != "[]" else ())
            for row, id, content, path, metadata, acl in rows
        ]

    def of_no_source(self, contents: int) -> list[int]:
        """Versions of a set whose source was forgotten: a rollback may bring them back. Source 0 is that of documents
        which come from no folder."""
        rows = self._db.execute(
            f"SELECT v.row FROM versions v JOIN members m ON m.version = v.row WHERE {LIVE} AND v.source != 0 "
            "AND v.source NOT IN (SELECT id FROM sources)",
            {"s": contents},
        )
        return [row for (row,) in rows]

    def owner_of(self, id: str, contents: int) -> tuple[int, str] | None:
        """The source and the path that a set has a document id from, if it has it."""
        row = self._db.execute(
            f"SELECT v.source, v.path FROM versions v JOIN members m ON m.version = v.row WHERE v.id = :id AND {LIVE}",
            {"id": id, "s": contents},
        ).fetchone()
        return (int(row[0]), str(row[1])) if row else None

    def find(self, id: str, contents: int) -> int | None:
        """The version that a set has of a document."""
        row = self._db.execute(
            f"SELECT v.row FROM versions v JOIN members m ON m.version = v.row WHERE v.id = :id AND {LIVE}",
            {"id": id, "s": contents},
        ).fetchone()
        return int(row[0]) if row else None

    def document(self, version: int) -> Document:
        row = self._db.execute(
            "SELECT id, title, format, metadata, acl, places, length FROM versions WHERE row = ?", (version,)
        ).fetchone()
        if row is None:
            raise StoreError(f"There is no version {version} of any document. surefind history DOCUMENT lists them.")
        id, title, format, metadata, acl, places, length = row
        return Document(
            id, self.text(version, 0, length), title, format, json.loads(metadata), tuple(json.loads(acl)),
            tuple(Place(start, name) for start, name in json.loads(places)),
        )  # fmt: skip

    def text(self, version: int, start: int, end: int) -> str:
        """A span of a version's text; only the blocks that it touches are read."""
        return self.texts([(version, start, end)])[0]

    def texts(self, spans: Sequence[tuple[int, int, int]]) -> list[str]:
        """Spans of texts, as (version, start, end). Only the blocks that they touch are read, and each once."""
        wanted = {at for span in spans for at in _blocks(*span)}
        found: dict[int, str] = {}
        for few in batched(sorted(wanted), _MOST):
            rows = self._db.execute(f"SELECT place, text FROM texts WHERE place IN ({','.join('?' * len(few))})", few)
            found.update(rows)
        parts = ("".join(found.get(at, "") for at in _blocks(*span)) for span in spans)
        return [
            text[start % BLOCK : start % BLOCK + max(0, end - start)]
            for text, (_, start, end) in zip(parts, spans, strict=True)
        ]

    def file_of(self, version: int) -> tuple[Any, ...]:
        """(source id, path, size, mtime_ns, seen_ns, sha256, reader) of a version."""
        row = self._db.execute(
            "SELECT source, path, size, mtime_ns, seen_ns, sha256, reader FROM versions WHERE row = ?", (version,)
        ).fetchone()
        return tuple(row)

    def history(self, document: str, generations: Sequence[Generation]) -> list[Version]:
        """Every version of a document that is still here, newest first."""
        return list(self._versions("v.id = ?", (document,), generations))

    def in_state(self, states: Sequence[State], generations: Sequence[Generation]) -> list[Version]:
        marks = ",".join("?" * len(states))
        return list(self._versions(f"v.state IN ({marks})", tuple(states), generations))

    def _versions(self, where: str, values: tuple[object, ...], generations: Sequence[Generation]) -> Iterator[Version]:
        held: dict[int, list[tuple[int, int]]] = defaultdict(list)
        rows = self._db.execute(
            "SELECT version, added, removed FROM members "
            f"WHERE version IN (SELECT v.row FROM versions v WHERE {where})",
            values,
        )
        for version, added, removed in rows:
            held[version].append((added, removed))
        found = self._db.execute(
            "SELECT v.row, v.id, v.title, v.state, v.author, v.created, v.length FROM versions v "
            f"WHERE {where} ORDER BY v.row DESC",
            values,
        )
        current = generations[-1].number if generations else 0
        for row, id, title, state, author, created, length in found:
            inside = tuple(
                g.number for g in generations if any(added <= g.contents < removed for added, removed in held[row])
            )
            seen: State = "published" if current in inside else state if state in _WAITING else "retired"
            yield Version(row, id, title, seen, author, created, length, inside)


def _blocks(version: int, start: int, end: int) -> range:
    """The places of the blocks that hold a span."""
    at = version << BLOCK_BITS
    return range(at + start // BLOCK, at + (end - 1) // BLOCK + 1) if end > start else range(0)


def batched(items: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    return (items[at : at + size] for at in range(0, len(items), size))
