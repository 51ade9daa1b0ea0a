"""The SQLite file of the desk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from surefind.base.errors import DamagedError
from surefind.engine.store.checked import CheckedRows, Format
from surefind.engine.store.checked_file import FileKind
from surefind.engine.store.checksums import Tables
from surefind.kb.drafts._rows import DraftRow, RevisionRow

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
