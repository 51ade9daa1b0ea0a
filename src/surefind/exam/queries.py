"""Keeps the queries of searches in `.surefind/queries.db`, if `keep_queries = true` stands below `[exam]`.

A row holds the query, the time, the pipeline, how many groups the caller has (not which), and the document and span of
the first hits. The hits are kept only if the caller has no group: everybody may read such hits, so the file names no
restricted document. Only the user who made the file may open it, and nothing leaves the machine.

A search must not fail or wait because of this: `keep` is called after the answer, raises nothing, and waits for other
processes a fifth of a second at most.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from surefind.access import Access
from surefind.errors import StoreError, is_denied
from surefind.store.checksums import checksum
from surefind.store.connection import Connection
from surefind.types import SearchResult

NAME = "queries.db"
HITS = 5
"""The most hits that are kept with a query."""
_VERSION = 2
"""The format of the file; the first one had no checksums."""
_ADVICE = "Restore it from a backup, or delete the kept queries with: surefind exam queries --clear."
_WAIT = 0.2
_DAY = 86_400.0
_TABLE = """
CREATE TABLE IF NOT EXISTS kept (
  id INTEGER PRIMARY KEY, at REAL NOT NULL, query TEXT NOT NULL, pipeline TEXT NOT NULL, groups INTEGER NOT NULL,
  hits TEXT NOT NULL, checksum INTEGER
);
CREATE INDEX IF NOT EXISTS kept_at ON kept (at);
"""


@dataclass(frozen=True, slots=True)
class Kept:
    """One kept query."""

    at: float
    """Seconds since 1970."""
    query: str
    pipeline: str
    groups: int
    """How many access groups the caller had."""
    hits: list[dict[str, Any]]
    """Document, start and end of the first hits; empty if the caller had groups or nothing was found."""


class QueryLog:
    """The kept queries of one knowledge base. `days` is how long a query is kept."""

    def __init__(self, data: Path, days: int) -> None:
        self.path = data / NAME
        self.days = days

    def keep(self, result: SearchResult, access: Access) -> str:
        """Stores the query of a search and deletes those that are too old. Returns why it could not be stored; empty if
        it was."""
        hits = [{"document": hit.document, "start": hit.start, "end": hit.end} for hit in result.hits[:HITS]]
        found = json.dumps([] if access.groups else hits, ensure_ascii=False)
        row = time.time(), result.query, result.pipeline, len(access.groups), found
        try:
            with self._opened() as db:
                names = "at, query, pipeline, groups, hits, checksum"
                db.execute(f"INSERT INTO kept ({names}) VALUES (?, ?, ?, ?, ?, ?)", (*row, checksum(*row)))
                self._expire(db)
        except (OSError, sqlite3.Error, UnicodeEncodeError) as error:
            return f"The query was not kept in {self.path}: {error}."
        return ""

    def all(self) -> list[Kept]:
        """Returns the kept queries, newest first, and deletes those that are too old. Raises `StoreError` if the file
        is damaged."""
        if not self.path.exists():
            return []
        try:
            rows = self._rows()
        except sqlite3.Error as error:
            raise StoreError(f"{self.path} cannot be read ({error}). {_ADVICE}") from None
        if any(checksum(*row) != seal for *row, seal in rows):
            raise StoreError(f"A query in {self.path} does not match its checksum. {_ADVICE}")
        oldest = time.time() - self.days * _DAY
        return [
            Kept(at, query, pipeline, groups, json.loads(hits))
            for at, query, pipeline, groups, hits, _ in rows
            if at >= oldest
        ]

    def _rows(self) -> list[tuple[Any, ...]]:
        try:
            with self._opened() as db:
                self._expire(db)
                return _intact(db)
        except sqlite3.OperationalError as error:
            if not (is_denied(error) or "unable to open" in str(error)):
                raise
        mode = f"file:{quote(str(self.path))}?mode=ro&immutable=1"
        with contextlib.closing(sqlite3.connect(mode, uri=True, factory=Connection)) as db:
            return _intact(db)

    def clear(self) -> int:
        """Deletes all kept queries, on the disk too (`secure_delete`). Returns how many there were. A damaged file is
        removed."""
        if not self.path.exists():
            return 0
        try:
            with self._opened() as db:
                count = db.execute("DELETE FROM kept").rowcount
        except sqlite3.OperationalError as error:
            raise StoreError(f"The queries in {self.path} cannot be deleted now ({error}). Try again.") from None
        except sqlite3.DatabaseError:
            for suffix in ("", "-wal", "-shm"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            return 0
        return int(count)

    def _expire(self, db: sqlite3.Connection) -> None:
        db.execute("DELETE FROM kept WHERE at < ?", (time.time() - self.days * _DAY,))

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        if not self.path.exists():  # sqlite would let others read it
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        db = sqlite3.connect(self.path, timeout=_WAIT, factory=Connection)
        try:
            db.execute("PRAGMA secure_delete = ON")
            # A search does not wait for the disk: 0.6 ms instead of 2.5. A power cut can damage this file, and only it.
            db.execute("PRAGMA synchronous = OFF")
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                db.execute("PRAGMA journal_mode = WAL")
                db.executescript(_TABLE + f"PRAGMA user_version = {_VERSION};")
            elif version == 1:
                db.create_function("checksum", -1, checksum, deterministic=True)
                db.execute("ALTER TABLE kept ADD COLUMN checksum INTEGER")
                db.execute("UPDATE kept SET checksum = checksum(at, query, pipeline, groups, hits)")
                db.execute(f"PRAGMA user_version = {_VERSION}")
            with db:
                yield db
        finally:
            db.close()


def _intact(db: sqlite3.Connection) -> list[tuple[Any, ...]]:
    """Returns the rows, after checking the structure of the file: damage there can hide a row."""
    problem = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if problem != "ok":
        raise sqlite3.DatabaseError(problem)
    wanted = "SELECT at, query, pipeline, groups, hits, checksum FROM kept ORDER BY at DESC, id DESC"
    return db.execute(wanted).fetchall()
