"""Reviews of drafts: comments on lines, and approvals. Nobody approves a draft that they wrote a revision of."""

from __future__ import annotations

import sqlite3

from surefind.base.errors import ConflictError, NotFoundError, UsageError
from surefind.kb.drafts.store import DraftStore, authors_of, note, timestamp
from surefind.kb.drafts.values import Comment, same_person

_MAX_COMMENT_CHARS = 10_000
_COMMENTS = "SELECT number, draft, revision, line, author, text, created, reply_to, resolved_by FROM comments"


def comment(
    drafts: DraftStore,
    number: int,
    revision: int,
    line: int,
    author: str,
    text: str,
    reply_to: int | None = None,
    most: int | None = None,
) -> Comment:
    """Adds a comment on a line of a revision; on the whole draft if the line is 0. `most` is the last line that can
    have a comment, by default that of the revision's text."""
    text = text.strip()
    if not text or len(text) > _MAX_COMMENT_CHARS or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise UsageError(f"A comment must have 1 to {_MAX_COMMENT_CHARS:,} characters.")
    lines = len(drafts.revision(number, revision).text.splitlines()) if most is None else most
    if not 0 <= line <= lines:
        raise UsageError(f"Revision {revision} has {lines} lines, and the comment is on line {line}.")
    with drafts.database.writing() as db:
        if reply_to is not None:
            _comment(db, number, reply_to)
        cursor = db.execute(
            "INSERT INTO comments (draft, revision, line, author, text, created, reply_to, resolved_by) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, '')",
            (number, revision, line, author, text, timestamp(), reply_to),
        )
        where = f"line {line}" if line else "the draft"
        note(db, number, author, f"commented on {where}", revision)
        return _comment(db, number, int(cursor.lastrowid or 0))


def resolve(drafts: DraftStore, number: int, comment: int, who: str) -> Comment:
    """Marks a comment of a draft as resolved."""
    with drafts.database.writing() as db:
        comment_row = _comment(db, number, comment)
        if not comment_row.resolved_by:
            db.execute("UPDATE comments SET resolved_by = ? WHERE number = ?", (who, comment))
            note(db, number, who, f"resolved a comment of {comment_row.author}", comment_row.revision)
        return _comment(db, number, comment)


def comments(drafts: DraftStore, number: int) -> list[Comment]:
    """Returns the comments on a draft, on all revisions, in the order in which they were made."""
    with drafts.database.reading() as db:
        return [Comment(*row) for row in db.execute(f"{_COMMENTS} WHERE draft = ? ORDER BY number", (number,))]


def _comment(db: sqlite3.Connection, draft: int, number: int) -> Comment:
    row = db.execute(f"{_COMMENTS} WHERE draft = ? AND number = ?", (draft, number)).fetchone()
    if row is None:
        raise NotFoundError(f"Draft {draft} has no comment {number}.")
    return Comment(*row)


def approve(drafts: DraftStore, number: int, revision: int, reviewer: str) -> None:
    """Approves the newest revision of a draft in review. Raises `UsageError` if the reviewer wrote any revision of it,
    and `ConflictError` if there is a newer revision than the one that the reviewer read."""
    with drafts.database.writing() as db:
        draft = drafts.open_draft(db, number)
        newest = draft.revision
        if not reviewer.strip():
            raise UsageError("An approval needs the name of the reviewer: set SUREFIND_AUTHOR.")
        if any(same_person(reviewer, author) for author in authors_of(db, number)):
            raise UsageError(
                f"{reviewer} wrote a revision of draft {number}, and nobody approves their own text. Ask somebody else."
            )
        if draft.state == "draft":
            raise UsageError(f"Draft {number} is not in review yet. Submit it first: surefind draft review {number}.")
        if revision != newest:
            raise ConflictError(
                f"Draft {number} has a newer revision, {newest}, and you read revision {revision}. Read it, then "
                "approve it.",
                newest,
            )
        if any(same_person(reviewer, name) for name in draft.approvals):
            return
        db.execute("INSERT INTO approvals (draft, revision, reviewer) VALUES (?, ?, ?)", (number, revision, reviewer))
        note(db, number, reviewer, "approved", revision)
