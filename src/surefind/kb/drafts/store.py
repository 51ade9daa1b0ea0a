"""Drafts in `.surefind/drafts.db`: made, saved, submitted, discarded and found again. `review` has comments and
approvals.

No update is lost: a save names the revision that was edited, and is refused if there is a newer one. Every revision is
kept.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from surefind.base.errors import ConflictError, UsageError
from surefind.engine.store.database import Format, checksum
from surefind.engine.store.shared_file import FileKind, SharedFile
from surefind.kb.drafts.values import OPEN, Base, Draft, DraftState, Event, Revision


class DraftRow(NamedTuple):
    """A row of `drafts`: its columns in their order."""

    number: int
    document: str
    author: str
    state: DraftState
    revision: int
    keeps: int
    base: int | None
    base_content: str
    base_text: str
    version: int | None
    generation: int | None
    created: str
    changed: str


class RevisionRow(NamedTuple):
    """A row of `revisions`: its columns in their order, before their digest."""

    draft: int
    number: int
    name: str
    author: str
    created: str
    data: str
    text: str
    title: str
    acl: str
    length: int


NAME = "drafts.db"
_TABLES = """
CREATE TABLE drafts (
  number INTEGER PRIMARY KEY AUTOINCREMENT, document TEXT NOT NULL, author TEXT NOT NULL, state TEXT NOT NULL,
  revision INTEGER NOT NULL, keeps INTEGER NOT NULL, base INTEGER, base_content TEXT NOT NULL, base_text TEXT NOT NULL,
  version INTEGER, generation INTEGER, created TEXT NOT NULL, changed TEXT NOT NULL
);
CREATE INDEX drafts_by_state ON drafts (state);
CREATE INDEX drafts_by_document ON drafts (document);
CREATE TABLE revisions (
  draft INTEGER NOT NULL, number INTEGER NOT NULL, name TEXT NOT NULL, author TEXT NOT NULL, created TEXT NOT NULL,
  data TEXT NOT NULL, text TEXT NOT NULL, title TEXT NOT NULL, acl TEXT NOT NULL, length INTEGER NOT NULL,
  digest INTEGER NOT NULL, PRIMARY KEY (draft, number)
) WITHOUT ROWID;
CREATE TABLE blobs (sha256 TEXT PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE comments (
  number INTEGER PRIMARY KEY, draft INTEGER NOT NULL, revision INTEGER NOT NULL, line INTEGER NOT NULL,
  author TEXT NOT NULL, text TEXT NOT NULL, created TEXT NOT NULL, reply_to INTEGER, resolved_by TEXT NOT NULL
);
CREATE INDEX comments_by_draft ON comments (draft);
CREATE TABLE approvals (
  draft INTEGER NOT NULL, revision INTEGER NOT NULL, reviewer TEXT NOT NULL, PRIMARY KEY (draft, revision, reviewer)
) WITHOUT ROWID;
CREATE TABLE events (
  number INTEGER PRIMARY KEY, draft INTEGER NOT NULL, at TEXT NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL,
  revision INTEGER NOT NULL
);
CREATE INDEX events_by_draft ON events (draft);
"""
"""`revisions.data`, `revisions.text` and `drafts.base_text` are keys of `blobs`: hashes of what these hold."""
FORMAT = Format(3, tuple(filter(str.strip, _TABLES.split(";"))))


def keep(db: sqlite3.Connection, data: bytes) -> str:
    """Stores bytes once and returns their key."""
    key = hashlib.sha256(data).hexdigest()
    db.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?)", (key, data))
    return key


def fetch(db: sqlite3.Connection, key: str) -> bytes:
    """Returns stored bytes. Raises `DamagedError` if they are not what was stored."""
    row: tuple[Any, ...] | None = db.execute("SELECT data FROM blobs WHERE sha256 = ?", (key,)).fetchone()
    data = row[0] if row else None
    if not isinstance(data, bytes) or hashlib.sha256(data).hexdigest() != key:
        raise sqlite3.DatabaseError("the text of a draft does not match its checksum")
    return data


def _problems(db: sqlite3.Connection) -> Iterator[str]:
    for row in db.execute("SELECT * FROM revisions").fetchall():
        try:
            _revision_of(row)
        except sqlite3.DatabaseError as error:
            yield str(error)
    for key, size in db.execute("SELECT sha256, length(data) FROM blobs").fetchall():
        try:
            fetch(db, key)
        except sqlite3.DatabaseError:
            yield f"a file of {size} bytes does not match its checksum"
    wanted = "SELECT data FROM revisions UNION SELECT text FROM revisions UNION SELECT base_text FROM drafts"
    lost = db.execute(f"SELECT count(*) FROM ({wanted}) WHERE data NOT IN (SELECT sha256 FROM blobs)")
    if count := lost.fetchone()[0]:
        yield f"{count} files of drafts are missing"


DRAFTS = FileKind(
    "The file of drafts",
    f"Restore the files {NAME}* from a backup, or move them away to begin with no drafts: what is published is in "
    "the catalogue and is not affected.",
    FORMAT,
    problems=_problems,
)


_WAITING = ("draft", "in review")


@dataclass(frozen=True, slots=True)
class Content:
    """What a revision says: the file, and what was read from it."""

    name: str
    data: bytes
    text: str
    title: str
    acl: tuple[str, ...]
    length: int


class DraftStore:
    """The drafts of a knowledge base. Any thread of any process may use it at any time."""

    def __init__(self, data: Path, needed: int = 1) -> None:
        """`needed` is the number of approvals after which a draft counts as approved; it may be changed later."""
        self.database = SharedFile(data / NAME, DRAFTS)
        self.needed = needed

    def close(self) -> None:
        self.database.close()

    def problems(self) -> Iterator[str]:
        """Yields what is damaged; nothing if all of it is intact."""
        return self.database.problems()

    # ------------------------------------------------------------ writing

    def add(
        self,
        document: str,
        content: Content,
        author: str,
        base: Base,
        keeps: bool = False,
        what: str = "made the draft",
    ) -> Draft:
        """Adds a draft with its first revision. `keeps` says that it keeps the metadata of its document."""
        now = timestamp()
        with self.database.writing() as db:
            cursor = db.execute(
                "INSERT INTO drafts (document, author, state, revision, keeps, base, base_content, base_text, created, "
                "changed) VALUES (?, ?, 'draft', 1, ?, ?, ?, ?, ?, ?)",
                (document, author, keeps, base.version, base.content, keep(db, base.text.encode()), now, now),
            )
            made = int(cursor.lastrowid or 0)
            self._revise(db, made, 1, content, author, now)
            note(db, made, author, what, 1)
            return self._draft(db, made)

    def save(
        self, number: int, edited: int, content: Content, author: str, base: Base | None = None, what: str = "saved"
    ) -> Draft:
        """Adds a revision to a draft, if `edited` is still its newest one. Else raises `ConflictError`: nothing is
        changed, and the error has what was to be saved. With `base`, the draft is from now on based on that version."""
        now = timestamp()
        with self.database.writing() as db:
            draft = self.open_draft(db, number)
            if draft.revision != edited:
                newer = self._revision(db, number, draft.revision)
                raise ConflictError(
                    f"{newer.author or 'Somebody'} saved revision {newer.number} of draft {number} meanwhile, and you "
                    f"edited revision {edited}. Nothing is lost: put your changes into revision {newer.number} and "
                    "save again.",
                    newer.number,
                    content.data,
                )
            db.execute(
                "UPDATE drafts SET revision = ?, changed = ? WHERE number = ?", (draft.revision + 1, now, number)
            )
            if base is not None:
                db.execute(
                    "UPDATE drafts SET base = ?, base_content = ?, base_text = ? WHERE number = ?",
                    (base.version, base.content, keep(db, base.text.encode()), number),
                )
            self._revise(db, number, draft.revision + 1, content, author, now)
            note(db, number, author, what, draft.revision + 1)
            return self._draft(db, number)

    def set_state(self, number: int, state: DraftState, who: str, what: str) -> Draft:
        """Sets the state of a draft that is not published yet. A draft that is handed back loses its approvals."""
        with self.database.writing() as db:
            draft = self.open_draft(db, number)
            if state == "draft":
                db.execute("DELETE FROM approvals WHERE draft = ?", (number,))
            if draft.state != state:
                db.execute("UPDATE drafts SET state = ?, changed = ? WHERE number = ?", (state, timestamp(), number))
                note(db, number, who, what, draft.revision)
            return self._draft(db, number)

    def published(self, number: int, revision: int, base: Base, generation: int, who: str, more: str = "") -> Draft:
        """Records that a revision was published. If somebody saved a newer one meanwhile, the draft stays open, and is
        from now on based on what was published."""
        with self.database.writing() as db:
            draft = self._draft(db, number)
            if draft.revision == revision:
                db.execute(
                    "UPDATE drafts SET state = 'published', version = ?, generation = ?, changed = ? WHERE number = ?",
                    (base.version, generation, timestamp(), number),
                )
            else:
                db.execute(
                    "UPDATE drafts SET base = ?, base_content = ?, base_text = ? WHERE number = ?",
                    (base.version, base.content, keep(db, base.text.encode()), number),
                )
            approved = self._approvals(db, number, revision)
            by = f", approved by {', '.join(approved)}" if approved else ""
            note(db, number, who, f"published revision {revision} in generation {generation}{by}{more}", revision)
            return self._draft(db, number)

    def record(self, number: int, who: str, what: str) -> None:
        """Adds an event to a draft."""
        with self.database.writing() as db:
            note(db, number, who, what, self._draft(db, number).revision)

    # ------------------------------------------------------------ reading

    def waiting(self, document: str | None = None) -> list[Draft]:
        """Returns the drafts that wait to be published, newest first: all, or those of a document."""
        with self.database.reading() as db:
            drafts = self._in_state(db, *_WAITING)
            wanted = (row for row in drafts if document in (None, row.document))
            return [self._shown(db, row) for row in sorted(wanted, reverse=True)]

    def recent(self, most: int) -> list[Draft]:
        """Returns the drafts that were published last, the newest first."""
        with self.database.reading() as db:
            drafts = self._in_state(db, "published")
            drafts.sort(key=lambda row: (row.changed, row.number), reverse=True)
            return [self._shown(db, row) for row in drafts[:most]]

    def count(self) -> int:
        """Returns how many drafts wait to be published."""
        with self.database.reading() as db:
            return len(self._in_state(db, *_WAITING))

    def get(self, number: int) -> Draft:
        """Returns a draft in any state. Raises `UsageError` if there is none with this number."""
        with self.database.reading() as db:
            return self._draft(db, number)

    def revision(self, number: int, revision: int | None = None) -> Revision:
        """Returns a revision of a draft, by default the newest."""
        with self.database.reading() as db:
            return self._revision(db, number, revision or self._draft(db, number).revision)

    def authors(self, number: int) -> list[str]:
        """Returns who wrote a revision of a draft, each once, the first author first."""
        with self.database.reading() as db:
            return authors_of(db, number)

    def all_authors(self) -> dict[int, set[str]]:
        """Returns who wrote a revision of each draft that waits to be published, by the number of the draft."""
        with self.database.reading() as db:
            waiting = self._in_state(db, *_WAITING)
            return {row.number: set(authors_of(db, row.number)) for row in waiting}

    def base(self, number: int) -> Base:
        """Returns the published version that a draft was made from."""
        with self.database.reading() as db:
            row = self._known(db, number)
            return Base(row.base, row.base_content, fetch(db, row.base_text).decode())

    def signed(self, number: int, revision: int | None = None) -> tuple[str, tuple[str, ...]]:
        """Returns who wrote a revision of a draft, by default the newest, and its access list."""
        with self.database.reading() as db:
            row = self._revision_row(db, number, revision or self._draft(db, number).revision)
            return row.author, tuple(json.loads(row.acl))

    def keeps(self, number: int) -> bool:
        """Returns whether a draft keeps the metadata of its document."""
        with self.database.reading() as db:
            return bool(self._known(db, number).keeps)

    def events(self, number: int) -> list[Event]:
        """Returns what happened to a draft, in order."""
        with self.database.reading() as db:
            columns, of_draft = "at, who, what, revision", "WHERE draft = ? ORDER BY number"
            return [Event(*row) for row in db.execute(f"SELECT {columns} FROM events {of_draft}", (number,))]

    def file_of(self, version: int) -> tuple[str, bytes] | None:
        """Returns the name and the bytes of the file that a version was published from; None if it was not published
        here."""
        with self.database.reading() as db:
            published = next((row for row in self._in_state(db, "published") if row.version == version), None)
            if published is None:
                return None
            revision = self._revision_row(db, published.number, published.revision)
            return revision.name, fetch(db, revision.data)

    def published_files(self, document: str) -> Iterator[bytes]:
        """Yields what was written to the file of a document when drafts of it were published: the file of the draft, or
        its text with its metadata."""
        with self.database.reading() as db:
            for row in self._in_state(db, "published"):
                if row.document == document:
                    revision = self._revision_row(db, row.number, row.revision)
                    yield fetch(db, revision.data)
                    yield fetch(db, revision.text)

    # ------------------------------------------------------------ tables

    def _revise(
        self, db: sqlite3.Connection, number: int, revision: int, content: Content, author: str, now: str
    ) -> None:
        row = RevisionRow(
            number, revision, content.name, author, now, keep(db, content.data), keep(db, content.text.encode()),
            content.title, json.dumps(content.acl), content.length,
        )  # fmt: skip
        db.execute("INSERT INTO revisions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, checksum(*row)))

    def open_draft(self, db: sqlite3.Connection, number: int) -> Draft:
        """Returns a draft that is not published yet; raises `UsageError` if there is none with this number."""
        draft = self._draft(db, number)
        if draft.state in OPEN:
            return draft
        raise no_draft(number)

    def _draft(self, db: sqlite3.Connection, number: int) -> Draft:
        return self._shown(db, self._known(db, number))

    def _shown(self, db: sqlite3.Connection, row: DraftRow) -> Draft:
        newest = self._revision_row(db, row.number, row.revision)
        approvals, state = self._approvals(db, row.number, row.revision), row.state
        if state in OPEN and len(approvals) >= max(1, self.needed):
            state = "approved"
        return Draft(
            row.number, row.document, newest.title, state, row.author, row.revision, newest.name, newest.length,
            approvals, row.created, row.changed, row.generation,
        )  # fmt: skip

    def _approvals(self, db: sqlite3.Connection, number: int, revision: int) -> tuple[str, ...]:
        approvals = "SELECT reviewer FROM approvals WHERE (draft, revision) = (?, ?) ORDER BY reviewer"
        return tuple(who for (who,) in db.execute(approvals, (number, revision)))

    def _revision(self, db: sqlite3.Connection, number: int, revision: int) -> Revision:
        row = self._revision_row(db, number, revision)
        return Revision(
            number, revision, row.name, row.author, row.created, fetch(db, row.data), fetch(db, row.text).decode(),
            row.title, tuple(json.loads(row.acl)),
        )  # fmt: skip

    def _revision_row(self, db: sqlite3.Connection, number: int, revision: int) -> RevisionRow:
        row = db.execute("SELECT * FROM revisions WHERE draft = ? AND number = ?", (number, revision)).fetchone()
        if row:
            return _revision_of(row)
        if (draft := self._row(db, number)) and 0 < revision <= draft.revision:
            raise sqlite3.DatabaseError(f"revision {revision} of draft {number} is missing")
        raise UsageError(f"Draft {number} has no revision {revision}.")

    def _in_state(self, db: sqlite3.Connection, *states: str) -> list[DraftRow]:
        marks = ",".join("?" * len(states))
        return [DraftRow(*row) for row in db.execute(f"SELECT * FROM drafts WHERE state IN ({marks})", states)]

    def _known(self, db: sqlite3.Connection, number: int) -> DraftRow:
        row = self._row(db, number)
        if row is None:
            raise no_draft(number)
        return row

    def _row(self, db: sqlite3.Connection, number: int) -> DraftRow | None:
        row = db.execute("SELECT * FROM drafts WHERE number = ?", (number,)).fetchone()
        return DraftRow(*row) if row else None


def _revision_of(row: Sequence[Any]) -> RevisionRow:
    """Returns a row of `revisions`, given with its digest. Raises `sqlite3.DatabaseError` if it is not what was
    stored."""
    *values, digest = row
    if checksum(*values) != digest:
        raise sqlite3.DatabaseError(f"revision {values[1]} of draft {values[0]} does not match its checksum")
    return RevisionRow(*values)


def no_draft(number: int, state: str = "") -> UsageError:
    """Returns the error for a number that is not an open draft. It names no others: the caller may not see them."""
    about = f" Draft {number} is {state}." if state else ""
    return UsageError(f"There is no open draft {number}.{about} List the drafts with: surefind draft list.")


def note(db: sqlite3.Connection, number: int, who: str, what: str, revision: int) -> None:
    """Adds an event, in the transaction of what it describes."""
    db.execute(
        "INSERT INTO events (draft, at, who, what, revision) VALUES (?, ?, ?, ?, ?)",
        (number, timestamp(), who, what, revision),
    )


def authors_of(db: sqlite3.Connection, number: int) -> list[str]:
    revisions = db.execute("SELECT author FROM revisions WHERE draft = ? ORDER BY number", (number,))
    return list(dict.fromkeys(author for (author,) in revisions))


def timestamp() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
