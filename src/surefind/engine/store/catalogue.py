"""The catalogue: the sources, the versions of documents, and the generations made of them.

A version row is written once. A *set of documents* has a number, and a row of `members` says in which sets a version
is: set n holds the versions with added <= n < removed. A *generation* is what readers see: it has its own number and
shows one set. So a sync writes set n+1 beside set n without disturbing readers, and a commit adds one row to
`generations`. A rollback adds one row too: a new generation that shows an earlier set.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import sqlite3
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from surefind.base.errors import UsageError
from surefind.engine.store import lock
from surefind.engine.store.database import NEVER, CatalogueFile, set_digest, transaction
from surefind.engine.store.lock import nothing_yet
from surefind.engine.store.versions import (
    LIVE,
    Facts,
    FileRow,
    Generation,
    Member,
    NamedFile,
    ProblemRow,
    Source,
    Versions,
)

NAME = "catalogue.db"
_PATIENCE_MS = 1000
"""How long the end of a session waits for readers."""
_OF_SOURCE = "FROM versions WHERE source = :q AND (:b = '' OR path = :b OR substr(path, 1, length(:b) + 1) = :b || '/')"
"""The part of an SQL statement that finds the versions of files of source :q, in its folder :b if there is one."""
_IN_SET = f"EXISTS (SELECT 1 FROM members WHERE version = versions.row AND {LIVE})"


class Catalogue:
    """Reads and writes the catalogue of a knowledge base, a SQLite file in its data folder."""

    def __init__(self, folder: Path, readonly: bool = False) -> None:
        self.path = folder / NAME
        self.database = CatalogueFile(self.path, readonly)
        self.versions = Versions(self.database)

    @property
    def db(self):  # type: ignore[no-untyped-def]
        """The SQLite connection of this thread."""
        return self.database.db

    def transaction(self) -> contextlib.AbstractContextManager[None]:
        """Commits at the end of the `with` block; rolls back if it raises."""
        return transaction(self.db)

    def close(self) -> None:
        self.database.close()

    def end_session(self) -> None:
        """Ends a session that wrote something. Moves what was written from SQLite's log into the file: SQLite ignores
        the rest of a log from the first damaged byte on, and an earlier state would come back. A failure is no error:
        everything is committed."""
        if self.db.total_changes:
            with contextlib.suppress(OSError, sqlite3.Error):
                self.db.execute(f"PRAGMA busy_timeout={_PATIENCE_MS}")
                self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    # ------------------------------------------------------------ generations

    def generation(self) -> int:
        """Returns the number of the current generation; 0 before the first."""
        return int(self.db.execute("SELECT coalesce(max(number), 0) FROM generations").fetchone()[0])

    def generations(self) -> list[Generation]:
        """Returns the generations that are kept, oldest first."""
        columns = "number, created, documents, contents, author, reason"
        return [Generation(*row) for row in self.db.execute(f"SELECT {columns} FROM generations ORDER BY number")]

    def current(self) -> Generation | None:
        """Returns the current generation; None before the first."""
        return next(reversed(self.generations()), None)

    def leased(self) -> tuple[Generation, lock.Lease]:
        """Returns the current generation and a lease on it. If a writer deletes the generation before it has a lease,
        there is a newer one, and the loop takes that."""
        while True:
            generation = self.current()
            if generation is None:
                stopped = (
                    "The first sync was stopped before there was anything to search. What it had finished is kept."
                )
                folders = " ".join(shlex.quote(str(source.root)) for source in self.sources()) or "FOLDER"
                raise nothing_yet(self.path.parent, stopped, f"Continue with: surefind sync {folders}")
            held = lock.take(self.path.parent, generation.number)
            if held is not None:
                if any(kept.number == generation.number for kept in self.generations()):
                    return generation, held
                held.release()

    def kept(self, number: int) -> Generation:
        """Returns the generation with this number. Raises `UsageError` if it does not exist or is no longer kept."""
        kept = self.generations()
        generation = next((g for g in kept if g.number == number), None)
        if generation is None:
            listed = ", ".join(str(g.number) for g in kept) or "none"
            raise UsageError(f"There is no generation {number}. Kept generations: {listed}.")
        return generation

    def snapshot_id(self) -> int:
        """Returns the number of the set that the current generation shows; 0 before the first."""
        generation = self.current()
        return generation.contents if generation else 0

    def newest(self) -> int:
        """Returns the number of the newest set ever committed. The current set is older after a rollback; the numbers
        of committed sets are never used again."""
        return self.database.counter("contents")

    def digest(self, contents: int) -> int | None:
        """Returns the digest of a set of documents, as it was recorded when the set was committed; None before."""
        return self.versions.digest(contents)

    def commit(self, contents: int, author: str = "", reason: str = "sync") -> int:
        """Makes a set of documents visible to readers, as a new generation. Returns the generation's number."""
        number = self.generation() + 1
        held = self.versions.held(contents)
        created = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self.db.execute(
            "INSERT INTO generations (number, created, documents, contents, author, reason, digest) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (number, created, len(held), contents, author, reason, set_digest(held)),
        )
        self.db.execute("UPDATE counters SET value = ? WHERE name = 'contents'", (contents,))
        self.versions.end_retirements("published")
        return number

    def show_again(self, author: str = "") -> int:
        """Adds a generation that shows the set of the current one, because more of its indexes are there. Returns the
        new generation's number. `sweep` deletes the one before."""
        now = self.generations()[-1]
        self._show(now, author or now.author, now.reason)
        return now.number + 1

    def rollback(self, earlier: Generation, author: str = "") -> int:
        """Adds a generation that shows the set of an earlier one. One statement; nothing is built or copied. Returns
        the new generation's number."""
        self._show(earlier, author, f"rollback to {earlier.number}")
        return self.generation()

    def _show(self, earlier: Generation, author: str, reason: str) -> None:
        self.db.execute(
            "INSERT INTO generations (number, created, documents, contents, author, reason, digest) "
            "SELECT max(number) + 1, ?, ?, ?, ?, ?, ? FROM generations",
            (
                time.strftime("%Y-%m-%dT%H:%M:%S%z"), earlier.documents, earlier.contents, author, reason,
                self.digest(earlier.contents),
            ),
        )  # fmt: skip

    def members(self, contents: int) -> list[Member]:
        """Returns the versions of a set, in order of document id."""
        return self.versions.members(contents)

    def base(self) -> int:
        """Returns the number of the set that new versions are written on top of. It holds what the current generation
        shows, and no set is newer. After a rollback it is a copy of the earlier set, which stays invisible until
        something is committed."""
        shown, newest = self.snapshot_id(), self.newest()
        if shown == newest:
            return shown
        with self.transaction():
            self.db.execute(
                "UPDATE members SET removed = :n WHERE removed > :m AND NOT (added <= :s AND removed > :s)",
                {"n": newest + 1, "m": newest, "s": shown},
            )
            self.db.execute(
                "INSERT INTO members SELECT version, :n, :never FROM members "
                "WHERE added <= :s AND removed > :s AND removed <= :m",
                {"n": newest + 1, "m": newest, "s": shown, "never": NEVER},
            )
        return newest + 1

    def sweep_pending(self) -> list[int]:
        """Undoes the work of an interrupted writer: deletes its versions, and its marks on versions that it meant to
        remove. Returns the versions that were deleted."""
        newest = self.newest()
        with self.transaction():
            self.db.execute("DELETE FROM members WHERE added > ?", (newest,))
            self.db.execute(f"UPDATE members SET removed = {NEVER} WHERE removed > ? AND removed < {NEVER}", (newest,))
            self.versions.end_retirements("retired")
            return self.versions.delete_unheld()

    def sweep(self, keep: Collection[int], replaced: Collection[int] = ()) -> list[int]:
        """Deletes the generations whose sets are not in `keep`, those that were `replaced`, by their numbers, and the
        versions that no kept set holds. Returns the versions that were deleted."""
        kept = sorted(keep)
        with self.transaction():
            self.db.executemany("DELETE FROM generations WHERE number = ?", [(number,) for number in replaced])
            marks = ",".join("?" * len(kept))
            self.db.execute(f"DELETE FROM generations WHERE contents NOT IN ({marks})", kept)
            held = " OR ".join(f"(added <= {int(s)} AND removed > {int(s)})" for s in kept) or "0"
            newest = kept[-1] if kept else 0
            self.db.execute(f"DELETE FROM members WHERE added <= {newest} AND NOT ({held})")
            return self.versions.delete_unheld()

    # ------------------------------------------------------------ sources and files

    def sources(self) -> list[Source]:
        """Returns all sources. Fetched files lie beside the catalogue, and their path is stored relative to it, so that
        the folder can be moved."""
        folder = self.path.parent.resolve()
        rows = self.db.execute("SELECT id, root, name, origin, revision FROM sources ORDER BY id")
        return [
            Source(source_id, folder / root, name, origin, revision) for source_id, root, name, origin, revision in rows
        ]

    def named(self) -> list[NamedFile]:
        """Returns the documents of the current generation, and those that somebody retired."""
        rows = self.db.execute(
            f"SELECT id, row, source, path FROM versions WHERE {_IN_SET} OR state = 'retired'",
            {"s": self.snapshot_id()},
        )
        return list(map(NamedFile._make, rows))

    def add_source(self, root: Path, name: str = "", origin: str = "") -> Source:
        """Adds a source, unless there is one with this root, and returns it."""
        stored = root.relative_to(self.path.parent.resolve()) if origin else root
        self.db.execute(
            "INSERT OR IGNORE INTO sources (root, name, origin) VALUES (?, ?, ?)",
            (str(stored), name or root.name, origin),
        )
        return next(source for source in self.sources() if source.root == root)

    def set_revision(self, source: Source, origin: str, revision: str) -> None:
        """Records a source's origin and the commit that was fetched from it."""
        self.db.execute("UPDATE sources SET origin = ?, revision = ? WHERE id = ?", (origin, revision, source.id))

    def drop_source(self, source: Source) -> None:
        """Deletes a source and its problems, but not its documents."""
        self.db.execute("DELETE FROM sources WHERE id = ?", (source.id,))
        self.db.execute("DELETE FROM problems WHERE source = ?", (source.id,))

    def facts(self, source: Source, contents: int, below: str, settled_ns: int) -> set[Facts]:
        """Returns what tells whether a file has changed, for the files of a source in the set. A file that was read
        less than `settled_ns` after its modification has no time here."""
        time_ns = f"CASE WHEN seen_ns - mtime_ns > {settled_ns} THEN mtime_ns END"
        values = {"s": contents, "q": source.id, "b": below}
        return set(self.db.execute(f"SELECT path, size, {time_ns}, reader {_OF_SOURCE} AND {_IN_SET}", values))

    def files(
        self, source: Source, contents: int, below: str = "", only: Collection[str] | None = None
    ) -> dict[str, FileRow]:
        """Returns the files of a source by path: those in the set, and those whose documents were retired. A path can
        have both, as after a rollback; then the row describes the version that the set holds. With `below`, returns
        only the file with this path, or the files in the folder with it; with `only`, of those in the set only the
        files with these paths."""
        select = f"SELECT path, size, mtime_ns, seen_ns, sha256, reader, row {_OF_SOURCE} AND"
        values = {"s": contents, "q": source.id, "b": below, "o": None if only is None else json.dumps(list(only))}
        some = "(:o IS NULL OR path IN (SELECT value FROM json_each(:o)))"
        held = [FileRow(*row) for row in self.db.execute(f"{select} {some} AND {_IN_SET} ORDER BY row", values)]
        retired = self.db.execute(f"{select} state = 'retired' AND NOT {_IN_SET} ORDER BY row", values)
        every = [*(FileRow(*row) for row in retired), *held]
        files = {row.path: row for row in every}  # of several rows, the last one
        if len(files) < len(every):
            others: dict[str, list[int]] = {}
            for row in every:
                if row.version != files[row.path].version:
                    others.setdefault(row.path, []).append(row.version)
            files |= {path: files[path]._replace(others=tuple(more)) for path, more in others.items()}
        return files

    # ------------------------------------------------------------ problems

    def set_problems(self, source: Source, problems: Iterable[ProblemRow]) -> None:
        """Replaces the recorded problems of a source: the files that its last sync could not read."""
        self.db.execute("DELETE FROM problems WHERE source = ?", (source.id,))
        for problem in problems:
            self.add_problem(source.id, problem)

    def add_problem(self, source: int, p: ProblemRow) -> None:
        """Records one more problem of a source, given its id."""
        self.db.execute(
            "INSERT OR REPLACE INTO problems (source, path, reason, file, size, mtime_ns, seen_ns, reader) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (source, p.path, p.reason, p.file, p.size, p.mtime_ns, p.seen_ns, p.reader),
        )

    def problems(self, source: Source | None = None) -> list[ProblemRow]:
        """Returns the problems of a source, or of all sources, in order of path."""
        where, values = ("WHERE source = ?", (source.id,)) if source else ("", ())
        columns = "path, reason, file, size, mtime_ns, seen_ns, reader"
        rows = self.db.execute(f"SELECT {columns} FROM problems {where} ORDER BY path", values)
        return [ProblemRow(path, reason, file or path, *attempt) for path, reason, file, *attempt in rows]
