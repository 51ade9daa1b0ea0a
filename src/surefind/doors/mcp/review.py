"""The tool `review`: what happens to a draft between its first text and its publication."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from surefind.base.errors import UsageError
from surefind.doors.auth.caller import Caller
from surefind.doors.mcp.answers import ToolReply, one_line
from surefind.doors.mcp.arguments import Arguments
from surefind.doors.mcp.drafts import described
from surefind.kb import KnowledgeBase
from surefind.kb.draft_rights import act, lines_to_comment, seen, seen_comment
from surefind.kb.drafts.review import comment, resolve
from surefind.kb.drafts.values import Draft

DESCRIPTION = (
    "Move a draft on. submit: for review; comment: on `line`, with `text`; resolve: `comment`; rebase: put it on the "
    "newer version of its document; discard: give it up. For reviewers: approve or publish the `revision` that you "
    "read, return: hand it back. Nobody approves a draft that they wrote a part of."
)
DONE = {
    "submit": "waits for review", "approve": "is approved", "return": "is back with its author",
    "rebase": "is on the newer version", "discard": "is discarded",
}  # fmt: skip


class ReviewArguments(Arguments):
    number: int = Field(ge=1, lt=2**62, description="The number of the draft.")
    action: Literal["submit", "comment", "resolve", "rebase", "discard", "approve", "return", "publish"]
    revision: int = Field(0, ge=0, lt=2**31, description="The revision that you read: to comment, approve, publish.")
    line: int = Field(0, ge=0, lt=2**31, description="The line to comment on; 0 for the whole draft.")
    text: str = Field("", max_length=10_000, description="The comment.")
    comment: int = Field(0, ge=0, lt=2**62, description="The comment to resolve.")


def review(kb: KnowledgeBase, caller: Caller, given: ReviewArguments) -> ToolReply:
    """Does everything but publishing, which the server does in its own way."""
    if given.action in ("comment", "approve") and not given.revision:
        raise UsageError(f"To {given.action}, name the revision that you read. The tool drafts shows it.")
    if given.action == "comment":
        last = lines_to_comment(kb, caller, seen(kb, caller, given.number), given.revision)
        made = comment(kb.desk, given.number, given.revision, given.line, caller.name, given.text, most=last)
        return _answer(kb.desk.get(given.number), f"has comment {made.number}")
    if given.action == "resolve":
        seen(kb, caller, given.number)
        seen_comment(kb, caller, given.number, given.comment)
        resolve(kb.desk, given.number, given.comment, caller.name)
        return _answer(kb.desk.get(given.number), f"has comment {given.comment} resolved")
    if given.action == "publish":
        raise UsageError(
            f"This server does not publish. A person publishes it with: surefind draft publish {given.number}."
        )
    return _answer(act(kb, caller, given.number, given.action, given.revision), DONE[given.action])


def _answer(draft: Draft, what: str) -> ToolReply:
    return ToolReply(f"Draft {draft.number} of {one_line(draft.document)} {what}.", described(draft))


def publishing(draft: Draft, job: str) -> ToolReply:
    """Returns the answer to `publish`, which goes on as a job of the server."""
    text = f"Draft {draft.number} of {one_line(draft.document)} is being published, as job {job}."
    return ToolReply(f"{text} Searches find it when the job has ended.", described(draft) | {"job": job})
