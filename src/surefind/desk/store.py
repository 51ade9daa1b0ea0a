"""Drafts in `.surefind/desk.db`: made, saved, submitted, discarded and found again. `desk.review` has comments and
approvals.

No update is lost: a save names the revision that was edited, and is refused if there is a newer one. Every revision is
kept.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefind.desk._database import Database, fetch, keep, problems
from surefind.desk.values import OPEN, Base, Draft, DraftState, Event, Revision
from surefind.errors import ConflictError, UsageError

_DRAFT = (
    "SELECT d.number, d.document, r.title, d.state, d.author, d.revision, r.name, r.length, d.created, d.changed, "
    "d.generation FROM drafts d JOIN revisions r ON r.draft = d.number AND r.number = d.revision"
)
_WAITING = "('draft', 'in review')"


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
        self.database = Database(data)
        self.needed = needed

    def close(self) -> None:
        self.database.close()

    def problems(self) -> Iterator[str]:
        """Yields what is damaged; nothing if all of it is intact."""
        return problems(self.database.path.parent)

    # ------------------------------------------------------------ writing

    def add(
        self,
        document: str,
        content: Content,
        author: str,
        base: Base,
        keeps: bool = False,
        what: str = "made the draft",
        number: int | None = None,
        state: DraftState = "draft",
    ) -> Draft:
        """Adds a draft with its first revision. `keeps` says that it keeps the metadata of its document. If a draft has
        this `number` already, it is returned as it is."""
        now = timestamp()
        with self.database.writing() as db:
            if number is not None and db.execute("SELECT 1 FROM drafts WHERE number = ?", (number,)).fetchone():
                return self._draft(db, number)
            cursor = db.execute(
                "INSERT INTO drafts (number, document, author, state, revision, keeps, base, base_content, base_text, "
                "created, changed) VALUES (?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?)",
                (
                    number, document, author, state, keeps, base.version, base.content, keep(db, base.text.encode()),
                    now, now,
                ),
            )  # fmt: skip
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
            found = self._open(db, number)
            if found.revision != edited:
                newer = self._revision(db, number, found.revision)
                raise ConflictError(
                    f"{newer.author or 'Somebody'} saved revision {newer.number} of draft {number} meanwhile, and you "
                    f"edited revision {edited}. Nothing is lost: put your changes into revision {newer.number} and "
                    "save again.",
                    newer.number,
                    content.data,
                )
            db.execute(
                "UPDATE drafts SET revision = ?, changed = ? WHERE number = ?", (found.revision + 1, now, number)
            )
            if base is not None:
                db.execute(
                    "UPDATE drafts SET base = ?, base_content = ?, base_text = ? WHERE number = ?",
                    (base.version, base.content, keep(db, base.text.encode()), number),
                )
            self._revise(db, number, found.revision + 1, content, author, now)
            note(db, number, author, what, found.revision + 1)
            return self._draft(db, number)

    def set_state(self, number: int, state: DraftState, who: str, what: str) -> Draft:
        """Sets the state of a draft that is not published yet. A draft that is handed back loses its approvals."""
        with self.database.writing() as db:
            found = self._open(db, number)
            if state == "draft":
                db.execute("DELETE FROM approvals WHERE draft = ?", (number,))
            if found.state != state:
                db.execute("UPDATE drafts SET state = ?, changed = ? WHERE number = ?", (state, timestamp(), number))
                note(db, number, who, what, found.revision)
            return self._draft(db, number)

    def published(self, number: int, revision: int, base: Base, generation: int, who: str, more: str = "") -> Draft:
        """Records that a revision was published. If somebody saved a newer one meanwhile, the draft stays open, and is
        from now on based on what was published."""
        with self.database.writing() as db:
            found = self._draft(db, number)
            if found.revision == revision:
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
        more, values = (" AND d.document = ?", (document,)) if document is not None else ("", ())
        with self.database.reading() as db:
            return self._drafts(db, f"WHERE d.state IN {_WAITING}{more} ORDER BY d.number DESC", values)

    def recent(self, most: int) -> list[Draft]:
        """Returns the drafts that were published last, the newest first."""
        with self.database.reading() as db:
            return self._drafts(
                db, "WHERE d.state = 'published' ORDER BY d.changed DESC, d.number DESC LIMIT ?", (most,)
            )

    def count(self) -> int:
        """Returns how many drafts wait to be published."""
        with self.database.reading() as db:
            return int(db.execute(f"SELECT count(*) FROM drafts WHERE state IN {_WAITING}").fetchone()[0])

    def get(self, number: int) -> Draft:
        """Returns a draft in any state. Raises `UsageError` if there is none with this number."""
        with self.database.reading() as db:
            return self._draft(db, number)

    def document_of(self, number: int) -> str | None:
        """Returns the document of a draft; None if there is no draft with this number."""
        with self.database.reading() as db:
            row = db.execute("SELECT document FROM drafts WHERE number = ?", (number,)).fetchone()
            return row[0] if row else None

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
        found: dict[int, set[str]] = {}
        with self.database.reading() as db:
            for number, author in db.execute(
                "SELECT DISTINCT r.draft, r.author FROM drafts d JOIN revisions r ON r.draft = d.number "
                f"WHERE d.state IN {_WAITING}"
            ):
                found.setdefault(number, set()).add(author)
        return found

    def base(self, number: int) -> Base:
        """Returns the published version that a draft was made from."""
        with self.database.reading() as db:
            version, content, key = self._row(db, "base, base_content, base_text", number)
            return Base(version, content, fetch(db, key, self.database.path).decode())

    def signed(self, number: int, revision: int | None = None) -> tuple[str, tuple[str, ...]]:
        """Returns who wrote a revision of a draft, by default the newest, and its access list."""
        with self.database.reading() as db:
            wanted = revision or self._draft(db, number).revision
            row = db.execute(
                "SELECT author, acl FROM revisions WHERE draft = ? AND number = ?", (number, wanted)
            ).fetchone()
            if row is None:
                raise UsageError(f"Draft {number} has no revision {wanted}.")
            return row[0], tuple(json.loads(row[1]))

    def keeps(self, number: int) -> bool:
        """Returns whether a draft keeps the metadata of its document."""
        with self.database.reading() as db:
            return bool(self._row(db, "keeps", number)[0])

    def events(self, number: int) -> list[Event]:
        """Returns what happened to a draft, in order."""
        with self.database.reading() as db:
            rows = db.execute("SELECT at, who, what, revision FROM events WHERE draft = ? ORDER BY number", (number,))
            return [Event(*row) for row in rows]

    def file_of(self, version: int) -> tuple[str, bytes] | None:
        """Returns the name and the bytes of the file that a version was published from; None if it was not published
        here."""
        with self.database.reading() as db:
            row = db.execute(
                "SELECT r.name, r.data FROM drafts d JOIN revisions r ON r.draft = d.number AND r.number = d.revision "
                "WHERE d.version = ? AND d.state = 'published'",
                (version,),
            ).fetchone()
            return (row[0], fetch(db, row[1], self.database.path)) if row else None

    # ------------------------------------------------------------ rows

    def _revise(
        self, db: sqlite3.Connection, number: int, revision: int, content: Content, author: str, now: str
    ) -> None:
        db.execute(
            "INSERT INTO revisions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                number, revision, content.name, author, now, keep(db, content.data), keep(db, content.text.encode()),
                content.title, json.dumps(content.acl), content.length,
            ),
        )  # fmt: skip

    def _open(self, db: sqlite3.Connection, number: int) -> Draft:
        """Returns a draft that is not published yet; raises `UsageError` if there is none with this number."""
        found = self._drafts(db, "WHERE d.number = ?", (number,))
        if found and found[0].state in OPEN:
            return found[0]
        raise no_draft(number)

    def _draft(self, db: sqlite3.Connection, number: int) -> Draft:
        found = self._drafts(db, "WHERE d.number = ?", (number,))
        if not found:
            raise no_draft(number)
        return found[0]

    def _drafts(self, db: sqlite3.Connection, where: str, values: Sequence[object] = ()) -> list[Draft]:
        found = []
        for row in db.execute(f"{_DRAFT} {where}", values).fetchall():
            number, document, title, state, author, revision, name, length, created, changed, generation = row
            approvals = self._approvals(db, number, revision)
            if state in OPEN and len(approvals) >= max(1, self.needed):
                state = "approved"
            found.append(
                Draft(
                    number, document, title, state, author, revision, name, length, approvals, created, changed,
                    generation,
                )
            )  # fmt: skip
        return found

    def _approvals(self, db: sqlite3.Connection, number: int, revision: int) -> tuple[str, ...]:
        rows = db.execute(
            "SELECT reviewer FROM approvals WHERE draft = ? AND revision = ? ORDER BY reviewer", (number, revision)
        )
        return tuple(row[0] for row in rows)

    def _revision(self, db: sqlite3.Connection, number: int, revision: int) -> Revision:
        row = db.execute(
            "SELECT name, author, created, data, text, title, acl FROM revisions WHERE draft = ? AND number = ?",
            (number, revision),
        ).fetchone()
        if row is None:
            raise UsageError(f"Draft {number} has no revision {revision}.")
        name, author, created, data, text, title, acl = row
        path = self.database.path
        return Revision(
            number, revision, name, author, created, fetch(db, data, path), fetch(db, text, path).decode(), title,
            tuple(json.loads(acl)),
        )  # fmt: skip

    def _row(self, db: sqlite3.Connection, columns: str, number: int) -> tuple[Any, ...]:
        row: tuple[Any, ...] | None = db.execute(f"SELECT {columns} FROM drafts WHERE number = ?", (number,)).fetchone()
        if row is None:
            raise no_draft(number)
        return row


def no_draft(number: int, state: str = "") -> UsageError:
    """Returns the error for a number that is not an open draft. It names no others: the caller may not see them."""
    about = f" It is {state}." if state else ""
    return UsageError(f"Version {number} is not a draft.{about} List the drafts with: surefind version list.")


def note(db: sqlite3.Connection, number: int, who: str, what: str, revision: int) -> None:
    """Adds an event, in the transaction of what it describes."""
    db.execute(
        "INSERT INTO events (draft, at, who, what, revision) VALUES (?, ?, ?, ?, ?)",
        (number, timestamp(), who, what, revision),
    )


def authors_of(db: sqlite3.Connection, number: int) -> list[str]:
    rows = db.execute("SELECT author FROM revisions WHERE draft = ? ORDER BY number", (number,))
    return list(dict.fromkeys(row[0] for row in rows))


def timestamp() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
