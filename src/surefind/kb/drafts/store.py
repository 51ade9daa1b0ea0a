"""Drafts in `.surefind/desk.db`: made, saved, submitted, discarded and found again. `desk.review` has comments and
approvals.

No update is lost: a save names the revision that was edited, and is refused if there is a newer one. Every revision is
kept.

The SQLite file of the desk.

The rows of the desk. Their fields are the columns of its tables, in the order in which checksums take them.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from surefind.base.errors import ConflictError, DamagedError, UsageError
from surefind.engine.store.checked import CheckedRows, Format
from surefind.engine.store.checked_file import CheckedFile, FileKind
from surefind.engine.store.checksums import Tables
from surefind.kb.drafts.values import OPEN, Base, Draft, DraftState, Event, Revision


class DraftRow(NamedTuple):
    """A row of `drafts`."""

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
    """A row of `revisions`."""

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


NAME = "desk.db"
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
  PRIMARY KEY (draft, number)
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
"""`revisions.data`, `revisions.text` and `drafts.base_text` are keys of `blobs`, which
need no other checksum."""
TABLES = Tables(
    columns={
        "drafts": DraftRow._fields,
        "revisions": RevisionRow._fields,
        "comments": (
            "number", "draft", "revision", "line", "author", "text", "created", "reply_to", "resolved_by",
        ),
        "approvals": ("draft", "revision", "reviewer"),
        "events": ("number", "draft", "at", "who", "what", "revision"),
        "counters": ("name", "value"),
    },
    keys={
        "drafts": ("number",), "revisions": ("draft", "number"), "comments": ("number",),
        "approvals": ("draft", "revision", "reviewer"), "events": ("number",), "counters": ("name",),
    },
    counted={
        "drafts": "number", "revisions": "number", "comments": "number", "approvals": "revision", "events": "number",
    },
    groups={"drafts": "state", "revisions": "draft", "comments": "draft", "approvals": "draft", "events": "draft"},
)  # fmt: skip
FORMAT = Format(2, tuple(filter(str.strip, _TABLES.split(";"))), TABLES)


def keep(rows: CheckedRows, data: bytes) -> str:
    """Stores bytes once and returns their key."""
    key = hashlib.sha256(data).hexdigest()
    rows.db.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?)", (key, data))
    return key


def fetch(rows: CheckedRows, key: str) -> bytes:
    """Returns stored bytes. Raises `DamagedError` if they are not what was stored."""
    row: tuple[Any, ...] | None = rows.db.execute("SELECT data FROM blobs WHERE sha256 = ?", (key,)).fetchone()
    data = row[0] if row else None
    if not isinstance(data, bytes) or hashlib.sha256(data).hexdigest() != key:
        raise rows.damaged("the text of a draft does not match its checksum")
    return data


def _damaged_blobs(rows: CheckedRows) -> Iterator[str]:
    for key, size in rows.db.execute("SELECT sha256, length(data) FROM blobs").fetchall():
        try:
            fetch(rows, key)
        except DamagedError:
            yield f"a file of {size} bytes does not match its checksum"
    wanted = "SELECT data FROM revisions UNION SELECT text FROM revisions UNION SELECT base_text FROM drafts"
    lost = rows.db.execute(f"SELECT count(*) FROM ({wanted}) WHERE data NOT IN (SELECT sha256 FROM blobs)")
    if count := lost.fetchone()[0]:
        yield f"{count} files of drafts are missing"


DESK = FileKind(
    "The desk",
    f"Restore the files {NAME}* from a backup, or move them away to begin with an empty desk: what is published is in "
    "the catalogue and is not affected.",
    FORMAT,
    marked=True,
    problems=_damaged_blobs,
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


class Desk:
    """The drafts of a knowledge base. Any thread of any process may use it at any time."""

    def __init__(self, data: Path, needed: int = 1) -> None:
        """`needed` is the number of approvals after which a draft counts as approved; it may be changed later."""
        self.database = CheckedFile(data / NAME, DESK)
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
        with self.database.writing() as rows:
            cursor = rows.db.execute(
                "INSERT INTO drafts (document, author, state, revision, keeps, base, base_content, base_text, created, "
                "changed) VALUES (?, ?, 'draft', 1, ?, ?, ?, ?, ?, ?)",
                (document, author, keeps, base.version, base.content, keep(rows, base.text.encode()), now, now),
            )
            made = int(cursor.lastrowid or 0)
            self._revise(rows, made, 1, content, author, now)
            note(rows, made, author, what, 1)
            return self._draft(rows, made)

    def save(
        self, number: int, edited: int, content: Content, author: str, base: Base | None = None, what: str = "saved"
    ) -> Draft:
        """Adds a revision to a draft, if `edited` is still its newest one. Else raises `ConflictError`: nothing is
        changed, and the error has what was to be saved. With `base`, the draft is from now on based on that version."""
        now = timestamp()
        with self.database.writing() as rows:
            draft = self.open_draft(rows, number)
            if draft.revision != edited:
                newer = self._revision(rows, number, draft.revision)
                raise ConflictError(
                    f"{newer.author or 'Somebody'} saved revision {newer.number} of draft {number} meanwhile, and you "
                    f"edited revision {edited}. Nothing is lost: put your changes into revision {newer.number} and "
                    "save again.",
                    newer.number,
                    content.data,
                )
            rows.db.execute(
                "UPDATE drafts SET revision = ?, changed = ? WHERE number = ?", (draft.revision + 1, now, number)
            )
            if base is not None:
                rows.db.execute(
                    "UPDATE drafts SET base = ?, base_content = ?, base_text = ? WHERE number = ?",
                    (base.version, base.content, keep(rows, base.text.encode()), number),
                )
            self._revise(rows, number, draft.revision + 1, content, author, now)
            note(rows, number, author, what, draft.revision + 1)
            return self._draft(rows, number)

    def set_state(self, number: int, state: DraftState, who: str, what: str) -> Draft:
        """Sets the state of a draft that is not published yet. A draft that is handed back loses its approvals."""
        with self.database.writing() as rows:
            draft = self.open_draft(rows, number)
            if state == "draft":
                rows.db.execute("DELETE FROM approvals WHERE draft = ?", (number,))
            if draft.state != state:
                rows.db.execute(
                    "UPDATE drafts SET state = ?, changed = ? WHERE number = ?", (state, timestamp(), number)
                )
                note(rows, number, who, what, draft.revision)
            return self._draft(rows, number)

    def published(self, number: int, revision: int, base: Base, generation: int, who: str, more: str = "") -> Draft:
        """Records that a revision was published. If somebody saved a newer one meanwhile, the draft stays open, and is
        from now on based on what was published."""
        with self.database.writing() as rows:
            draft = self._draft(rows, number)
            if draft.revision == revision:
                rows.db.execute(
                    "UPDATE drafts SET state = 'published', version = ?, generation = ?, changed = ? WHERE number = ?",
                    (base.version, generation, timestamp(), number),
                )
            else:
                rows.db.execute(
                    "UPDATE drafts SET base = ?, base_content = ?, base_text = ? WHERE number = ?",
                    (base.version, base.content, keep(rows, base.text.encode()), number),
                )
            approved = self._approvals(rows, number, revision)
            by = f", approved by {', '.join(approved)}" if approved else ""
            note(rows, number, who, f"published revision {revision} in generation {generation}{by}{more}", revision)
            return self._draft(rows, number)

    def record(self, number: int, who: str, what: str) -> None:
        """Adds an event to a draft."""
        with self.database.writing() as rows:
            note(rows, number, who, what, self._draft(rows, number).revision)

    # ------------------------------------------------------------ reading

    def waiting(self, document: str | None = None) -> list[Draft]:
        """Returns the drafts that wait to be published, newest first: all, or those of a document."""
        with self.database.reading() as rows:
            drafts = self._in_state(rows, *_WAITING)
            wanted = (row for row in drafts if document in (None, row.document))
            return [self._shown(rows, row) for row in sorted(wanted, reverse=True)]

    def recent(self, most: int) -> list[Draft]:
        """Returns the drafts that were published last, the newest first."""
        with self.database.reading() as rows:
            drafts = self._in_state(rows, "published")
            drafts.sort(key=lambda row: (row.changed, row.number), reverse=True)
            return [self._shown(rows, row) for row in drafts[:most]]

    def count(self) -> int:
        """Returns how many drafts wait to be published."""
        with self.database.reading() as rows:
            return len(self._in_state(rows, *_WAITING))

    def get(self, number: int) -> Draft:
        """Returns a draft in any state. Raises `UsageError` if there is none with this number."""
        with self.database.reading() as rows:
            return self._draft(rows, number)

    def revision(self, number: int, revision: int | None = None) -> Revision:
        """Returns a revision of a draft, by default the newest."""
        with self.database.reading() as rows:
            return self._revision(rows, number, revision or self._draft(rows, number).revision)

    def authors(self, number: int) -> list[str]:
        """Returns who wrote a revision of a draft, each once, the first author first."""
        with self.database.reading() as rows:
            return authors_of(rows, number)

    def all_authors(self) -> dict[int, set[str]]:
        """Returns who wrote a revision of each draft that waits to be published, by the number of the draft."""
        with self.database.reading() as rows:
            waiting = self._in_state(rows, *_WAITING)
            return {row.number: set(authors_of(rows, row.number)) for row in waiting}

    def base(self, number: int) -> Base:
        """Returns the published version that a draft was made from."""
        with self.database.reading() as rows:
            row = self._known(rows, number)
            return Base(row.base, row.base_content, fetch(rows, row.base_text).decode())

    def signed(self, number: int, revision: int | None = None) -> tuple[str, tuple[str, ...]]:
        """Returns who wrote a revision of a draft, by default the newest, and its access list."""
        with self.database.reading() as rows:
            row = self._revision_row(rows, number, revision or self._draft(rows, number).revision)
            return row.author, tuple(json.loads(row.acl))

    def keeps(self, number: int) -> bool:
        """Returns whether a draft keeps the metadata of its document."""
        with self.database.reading() as rows:
            return bool(self._known(rows, number).keeps)

    def events(self, number: int) -> list[Event]:
        """Returns what happened to a draft, in order."""
        with self.database.reading() as rows:
            return [Event(at, who, what, revision) for _, _, at, who, what, revision in rows.group("events", number)]

    def file_of(self, version: int) -> tuple[str, bytes] | None:
        """Returns the name and the bytes of the file that a version was published from; None if it was not published
        here."""
        with self.database.reading() as rows:
            row_found = next((row for row in self._in_state(rows, "published") if row.version == version), None)
            if row_found is None:
                return None
            revision = self._revision_row(rows, row_found.number, row_found.revision)
            return revision.name, fetch(rows, revision.data)

    def published_files(self, document: str) -> Iterator[bytes]:
        """Yields what was written to the file of a document when drafts of it were published: the file of the draft, or
        its text with its metadata."""
        with self.database.reading() as rows:
            for row in self._in_state(rows, "published"):
                if row.document == document:
                    revision = self._revision_row(rows, row.number, row.revision)
                    yield fetch(rows, revision.data)
                    yield fetch(rows, revision.text)

    # ------------------------------------------------------------ rows

    def _revise(self, rows: CheckedRows, number: int, revision: int, content: Content, author: str, now: str) -> None:
        rows.db.execute(
            f"INSERT INTO revisions ({', '.join(RevisionRow._fields)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                number, revision, content.name, author, now, keep(rows, content.data),
                keep(rows, content.text.encode()), content.title, json.dumps(content.acl), content.length,
            ),
        )  # fmt: skip

    def open_draft(self, rows: CheckedRows, number: int) -> Draft:
        """Returns a draft that is not published yet; raises `UsageError` if there is none with this number."""
        draft = self._draft(rows, number)
        if draft.state in OPEN:
            return draft
        raise no_draft(number)

    def _draft(self, rows: CheckedRows, number: int) -> Draft:
        return self._shown(rows, self._known(rows, number))

    def _shown(self, rows: CheckedRows, row: DraftRow) -> Draft:
        newest = self._revision_row(rows, row.number, row.revision)
        approvals, state = self._approvals(rows, row.number, row.revision), row.state
        if state in OPEN and len(approvals) >= max(1, self.needed):
            state = "approved"
        return Draft(
            row.number, row.document, newest.title, state, row.author, row.revision, newest.name, newest.length,
            approvals, row.created, row.changed, row.generation,
        )  # fmt: skip

    def _approvals(self, rows: CheckedRows, number: int, revision: int) -> tuple[str, ...]:
        return tuple(who for _, approved, who in rows.group("approvals", number) if approved == revision)

    def _revision(self, rows: CheckedRows, number: int, revision: int) -> Revision:
        row = self._revision_row(rows, number, revision)
        return Revision(
            number, revision, row.name, row.author, row.created, fetch(rows, row.data), fetch(rows, row.text).decode(),
            row.title, tuple(json.loads(row.acl)),
        )  # fmt: skip

    def _revision_row(self, rows: CheckedRows, number: int, revision: int) -> RevisionRow:
        sealed = rows.rows("revisions", "WHERE draft = ? AND number = ?", (number, revision))
        if sealed:
            return RevisionRow(*sealed[0])
        rows.group("revisions", number)  # it may be lost
        raise UsageError(f"Draft {number} has no revision {revision}.")

    def _in_state(self, rows: CheckedRows, *states: str) -> list[DraftRow]:
        return [DraftRow(*row) for state in states for row in rows.group("drafts", state)]

    def _known(self, rows: CheckedRows, number: int) -> DraftRow:
        row = self._row(rows, number)
        if row is None:
            raise no_draft(number)
        return row

    def _row(self, rows: CheckedRows, number: int) -> DraftRow | None:
        sealed = rows.rows("drafts", "WHERE number = ?", (number,))
        if sealed:
            return DraftRow(*sealed[0])
        rows.check_groups("drafts")  # it may be lost
        return None


def no_draft(number: int, state: str = "") -> UsageError:
    """Returns the error for a number that is not an open draft. It names no others: the caller may not see them."""
    about = f" Draft {number} is {state}." if state else ""
    return UsageError(f"There is no open draft {number}.{about} List the drafts with: surefind draft list.")


def note(rows: CheckedRows, number: int, who: str, what: str, revision: int) -> None:
    """Adds an event, in the transaction of what it describes."""
    rows.db.execute(
        "INSERT INTO events (draft, at, who, what, revision) VALUES (?, ?, ?, ?, ?)",
        (number, timestamp(), who, what, revision),
    )


def authors_of(rows: CheckedRows, number: int) -> list[str]:
    revisions = (RevisionRow(*row) for row in rows.group("revisions", number))
    return list(dict.fromkeys(row.author for row in revisions))


def timestamp() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
