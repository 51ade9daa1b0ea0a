"""The catalogue: which documents there are, in which versions, and the generations made of them.

A version row is written once. A *set of documents* has a number; the row of `members` says from which set to which a
version belongs to it: set n holds the versions with added <= n < removed. A *generation* is what readers see: it has a
number of its own and shows one set. So a sync writes set n+1 beside set n without disturbing a reader, a commit is one
row in `generations`, and so is a rollback: a new generation that shows an earlier set.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from surefind.store._database import NEVER, Database, transaction
from surefind.store.rows import FileRow, Generation, Member, ProblemRow, Source
from surefind.store.versions import LIVE, Versions

NAME = "catalogue.db"


class Catalogue:
    def __init__(self, folder: Path, readonly: bool = False) -> None:
        self.path = folder / NAME
        self.database = Database(self.path, readonly)
        self.versions = Versions(self.database)

    @property
    def db(self):  # type: ignore[no-untyped-def]
        return self.database.db

    def transaction(self) -> contextlib.AbstractContextManager[None]:
        return transaction(self.db)

    def close(self) -> None:
        self.database.close()

    # ------------------------------------------------------------ generations

    def generation(self) -> int:
        """The number of the current one; 0 before the first."""
        return int(self.db.execute("SELECT coalesce(max(number), 0) FROM generations").fetchone()[0])

    def generations(self) -> list[Generation]:
        """Those that are kept, oldest first."""
        rows = self.db.execute(
            "SELECT number, created, documents, contents, author, reason FROM generations ORDER BY number"
        )
        return [Generation(*row) for row in rows]

    def current(self) -> Generation | None:
        row = self.db.execute(
            "SELECT number, created, documents, contents, author, reason FROM generations ORDER BY number DESC LIMIT 1"
        ).fetchone()
        return Generation(*row) if row else None

    def contents(self) -> int:
        """The set of documents that the current generation shows; 0 before the first."""
        found = self.current()
        return found.contents if found else 0

    def newest(self) -> int:
        """The newest set that was ever committed. A rollback shows an earlier one; numbers are never used again."""
        row = self.db.execute("SELECT value FROM counters WHERE name = 'contents'").fetchone()
        return int(row[0] or 0) if row else 0

    def commit(self, contents: int, author: str = "", reason: str = "sync") -> int:
        """From here on readers see this set of documents, as a new generation."""
        number = self.generation() + 1
        count = self.db.execute(f"SELECT count(*) FROM members WHERE {LIVE}", {"s": contents}).fetchone()[0]
        created = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self.db.execute(
            "INSERT INTO generations (number, created, documents, contents, author, reason) VALUES (?, ?, ?, ?, ?, ?)",
            (number, created, count, contents, author, reason),
        )
        self.db.execute("INSERT OR REPLACE INTO counters VALUES ('contents', ?)", (contents,))
        self.versions.end_retirements("published")
        return number

    def rollback(self, earlier: Generation, author: str = "") -> int:
        """A new generation that shows what an earlier one showed. One statement; nothing is built or copied."""
        self.db.execute(
            "INSERT INTO generations (number, created, documents, contents, author, reason) "
            "SELECT max(number) + 1, ?, ?, ?, ?, ? FROM generations",
            (
                time.strftime("%Y-%m-%dT%H:%M:%S%z"), earlier.documents, earlier.contents, author,
                f"rollback to {earlier.number}",
            ),
        )  # fmt: skip
        return self.generation()

    def members(self, contents: int) -> list[Member]:
        """The versions of a set, in order of document id."""
        return self.versions.members(contents)

    def base(self) -> int:
        """The set that new versions are written on top of: it equals what the current generation shows, and no set is
        newer. After a rollback that is a copy of the earlier set; it stays invisible until something is committed."""
        shown, newest = self.contents(), self.newest()
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
        """Undo what an interrupted writer left: its versions, and its marks on those it meant to remove. Returns the
        versions that are gone."""
        newest = self.newest()
        with self.transaction():
            self.db.execute("DELETE FROM members WHERE added > ?", (newest,))
            self.db.execute(f"UPDATE members SET removed = {NEVER} WHERE removed > ? AND removed < {NEVER}", (newest,))
            self.versions.end_retirements("retired")
            return self.versions.delete_lost()

    def sweep(self, keep: Collection[int]) -> list[int]:
        """Forget the generations whose sets are not to be kept, and versions that no kept set holds. Returns the
        versions that are gone."""
        kept = sorted(keep)
        with self.transaction():
            marks = ",".join("?" * len(kept))
            self.db.execute(f"DELETE FROM generations WHERE contents NOT IN ({marks})", kept)
            held = " OR ".join(f"(added <= {int(s)} AND removed > {int(s)})" for s in kept) or "0"
            newest = kept[-1] if kept else 0
            self.db.execute(f"DELETE FROM members WHERE added <= {newest} AND NOT ({held})")
            return self.versions.delete_lost()

    # ------------------------------------------------------------ sources and files

    def sources(self) -> list[Source]:
        """What is fetched lies beside the catalogue, so its path is kept relative and moves along."""
        rows = self.db.execute("SELECT id, root, name, origin, revision FROM sources ORDER BY id")
        folder = self.path.parent.resolve()
        return [Source(id, folder / root, name, origin, revision) for id, root, name, origin, revision in rows]

    def add_source(self, root: Path, name: str = "", origin: str = "") -> Source:
        kept = root.relative_to(self.path.parent.resolve()) if origin else root
        self.db.execute(
            "INSERT OR IGNORE INTO sources (root, name, origin) VALUES (?, ?, ?)",
            (str(kept), name or root.name, origin),
        )
        return next(source for source in self.sources() if source.root == root)

    def set_revision(self, source: Source, origin: str, revision: str) -> None:
        self.db.execute("UPDATE sources SET origin = ?, revision = ? WHERE id = ?", (origin, revision, source.id))

    def drop_source(self, source: Source) -> None:
        self.db.execute("DELETE FROM sources WHERE id = ?", (source.id,))
        self.db.execute("DELETE FROM problems WHERE source = ?", (source.id,))

    def files(self, source: Source, contents: int) -> dict[str, FileRow]:
        """The files of a source as a set of documents has them, and those whose documents somebody retired. Where a
        path has both, as after a rollback, the version that the set holds is what the file is compared with."""
        live = f"row IN (SELECT version FROM members WHERE {LIVE})"
        rows = self.db.execute(  # SQLite takes the plain columns from the row that has the max
            f"SELECT path, size, mtime_ns, seen_ns, sha256, reader, group_concat(row), max((({live}) << 40) + row) "
            f"FROM versions WHERE source = :q AND (state = 'retired' OR {live}) GROUP BY path",
            {"s": contents, "q": source.id},
        )
        return {
            path: FileRow(path, size, mtime, seen, sha, reader, tuple(map(int, found.split(","))))
            for path, size, mtime, seen, sha, reader, found, _ in rows
        }

    # ------------------------------------------------------------ problems

    def set_problems(self, source: Source, problems: Iterable[ProblemRow]) -> None:
        """What could not be read in the last sync of a source."""
        self.db.execute("DELETE FROM problems WHERE source = ?", (source.id,))
        self.db.executemany(
            "INSERT OR REPLACE INTO problems VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            ((source.id, p.path, p.reason, p.file, p.size, p.mtime_ns, p.seen_ns, p.reader) for p in problems),
        )

    def problems(self, source: Source | None = None) -> list[ProblemRow]:
        where, values = ("WHERE source = ?", (source.id,)) if source else ("", ())
        rows = self.db.execute(
            "SELECT path, reason, coalesce(file, path), size, mtime_ns, seen_ns, reader FROM problems "
            f"{where} ORDER BY path",
            values,
        )
        return [ProblemRow(*row) for row in rows]
