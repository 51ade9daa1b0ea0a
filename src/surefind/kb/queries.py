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
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefind.base.access import Access
from surefind.base.errors import DamagedError, StoreError, SurefindError
from surefind.base.types import SearchResult
from surefind.engine.store.database import Format, damaged_pages
from surefind.engine.store.shared_file import FileKind, SharedFile

NAME = "queries.db"
HITS = 5
"""The most hits that are kept with a query."""
_DAY = 86_400.0
_COLUMNS = ("id", "at", "query", "pipeline", "groups", "hits")
_KIND = FileKind(
    "The log of queries",
    "Restore it from a backup, or delete the kept queries with: surefind exam queries --clear.",
    Format(
        2,
        (
            f"CREATE TABLE kept (id INTEGER PRIMARY KEY, {', '.join(_COLUMNS[1:])})",
            "CREATE INDEX kept_at ON kept (at)",
        ),
    ),
    patience=0.2,
    # A search does not wait for the disk: 0.6 ms instead of 2.5. A power cut can damage this file, and only it.
    pragmas=("synchronous=OFF", "secure_delete=ON"),
)


@dataclass(frozen=True, slots=True)
class LoggedQuery:
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
    """The kept queries of one knowledge base. `days` is how long a query is kept; if not `on`, none is."""

    def __init__(self, data: Path, days: int, on: bool = True) -> None:
        self.path = data / NAME
        self.days = days
        self.on = on

    def keep(self, result: SearchResult, access: Access) -> str:
        """Stores the query of a search and deletes those that are too old. Returns why it could not be stored; empty if
        it was, or if queries are not kept."""
        if not self.on:
            return ""
        hits = [{"document": hit.document, "start": hit.start, "end": hit.end} for hit in result.hits[:HITS]]
        stored_hits = json.dumps([] if access.groups else hits, ensure_ascii=False)
        try:
            with self._writing() as db:
                db.execute(
                    "INSERT INTO kept (at, query, pipeline, groups, hits) VALUES (?, ?, ?, ?, ?)",
                    (time.time(), result.query, result.pipeline, len(access.groups), stored_hits),
                )
                self._expire(db)
        except (OSError, SurefindError, UnicodeEncodeError) as error:
            return f"The query was not kept in {self.path}: {error}"
        return ""

    def all(self) -> list[LoggedQuery]:
        """Returns the kept queries, newest first, and deletes those that are too old. Raises `DamagedError` if the file
        is damaged."""
        if not self.path.exists():
            return []
        with contextlib.suppress(StoreError), self._writing() as db:  # a read-only disk keeps them
            self._expire(db)
        with contextlib.closing(SharedFile(self.path, _KIND)) as file, file.reading() as db:
            for problem in damaged_pages(db):  # damage there can hide a row
                raise file.damaged(problem)
            rows = db.execute("SELECT at, query, pipeline, groups, hits FROM kept ORDER BY at DESC, id DESC").fetchall()
        kept = [LoggedQuery(at, query, spec, groups, json.loads(hits)) for at, query, spec, groups, hits in rows]
        return [logged for logged in kept if logged.at >= self._oldest]

    def clear(self) -> int:
        """Deletes all kept queries, on the disk too (`secure_delete`). Returns how many there were. A damaged file is
        removed."""
        if not self.path.exists():
            return 0
        try:
            with self._writing() as db:
                return db.execute("DELETE FROM kept").rowcount
        except DamagedError:
            for suffix in ("", "-wal", "-shm"):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            return 0

    def _expire(self, db: sqlite3.Connection) -> None:
        db.execute("DELETE FROM kept WHERE at < ?", (self._oldest,))

    @property
    def _oldest(self) -> float:
        return time.time() - self.days * _DAY

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(SharedFile(self.path, _KIND)) as file, file.writing() as db:
            yield db
