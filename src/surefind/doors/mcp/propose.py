"""The tool `propose`: an addition or a change, as a draft that a person reviews. It never publishes."""

from __future__ import annotations

from pydantic import Field

from surefind.base.errors import UsageError
from surefind.doors.auth.caller import Caller
from surefind.doors.mcp.answers import ToolReply, one_line
from surefind.doors.mcp.arguments import Arguments
from surefind.doors.mcp.drafts import described
from surefind.kb import KnowledgeBase
from surefind.kb.draft_rights import seen

DESCRIPTION = (
    "Propose a new document or a changed one. The text becomes a draft: no search finds it before a person has "
    "reviewed and published it. To change a document, send the whole new text under its name; to change a draft, also "
    "its number and the revision that you read. Returns the number of the draft."
)
_MAX_PROPOSAL_CHARS = 200_000
_FENCE = "---"


class ProposeArguments(Arguments):
    document: str = Field(
        min_length=1, max_length=300, description="The name of the document: an existing one, or a new path ending .md."
    )
    text: str = Field(max_length=_MAX_PROPOSAL_CHARS, description="The whole text, in Markdown.")
    number: int = Field(0, ge=0, lt=2**62, description="The draft to change.")
    revision: int = Field(0, ge=0, lt=2**31, description="With number: the revision that you read.")


def propose(kb: KnowledgeBase, caller: Caller, given: ProposeArguments) -> ToolReply:
    """Makes a draft, which keeps the metadata and the access list of its document. Whether the document exists changes
    nothing that the caller sees. With `number`, it saves a new revision of a draft that was made here."""
    name = given.document.strip()
    if not given.text.strip():
        raise UsageError("The text is empty. Send the whole text of the document.")
    if not name or any(not character.isprintable() for character in name):
        raise UsageError("The name of the document must be one printable line, such as notes/wire-cutoff.md.")
    if given.text.lstrip("\ufeff \n\r").startswith(_FENCE):
        raise UsageError("The text begins with front matter (---). Leave it out: the reviewer decides on metadata.")
    if given.number:
        if seen(kb, caller, given.number).document != name:
            raise UsageError(f"Draft {given.number} is of another document. The tool drafts shows which.")
        if not kb.desk.keeps(given.number):
            raise UsageError(f"Draft {given.number} has metadata of its own, and this tool would lose it.")
        draft = kb.drafts.save(given.number, given.revision, given.text.encode(), caller.name)
    else:
        draft = kb.drafts.add_bytes(
            "proposal.md", given.text.encode(), name, caller.name, keep_metadata=True, access=caller.access()
        )
    text = (
        f"Draft {draft.number} of {one_line(name)} is saved. It is not published, and no search finds it. "
        f"A person publishes it with: surefind draft publish {draft.number}."
    )
    return ToolReply(text, described(draft))
