"""The tool `propose`: an addition or a change, as a draft that a person reviews. It never publishes."""

from __future__ import annotations

from pydantic import Field

from surefind.errors import UsageError
from surefind.kb import KnowledgeBase
from surefind.serve.mcp.answers import ToolReply, one_line
from surefind.serve.mcp.arguments import Arguments

DESCRIPTION = (
    "Propose a new document or a changed one. The text becomes a draft: no search finds it before a person has "
    "reviewed and published it. To change a document, send the whole new text under its name. Returns the number of "
    "the draft."
)
_MAX_PROPOSAL_CHARS = 200_000
_FENCE = "---"


class ProposeArguments(Arguments):
    document: str = Field(
        min_length=1, max_length=300, description="The name of the document: an existing one, or a new path ending .md."
    )
    text: str = Field(max_length=_MAX_PROPOSAL_CHARS, description="The whole text, in Markdown.")


def propose(kb: KnowledgeBase, author: str, given: ProposeArguments) -> ToolReply:
    """Makes a draft, which keeps the metadata and the access list of its document. Whether the document exists changes
    nothing that the caller sees."""
    name = given.document.strip()
    if not given.text.strip():
        raise UsageError("The text is empty. Send the whole text of the document.")
    if not name or any(not one.isprintable() for one in name):
        raise UsageError("The name of the document must be one printable line, such as notes/wire-cutoff.md.")
    if given.text.lstrip("\ufeff \n\r").startswith(_FENCE):
        raise UsageError("The text begins with front matter (---). Leave it out: the reviewer decides on metadata.")
    version = kb.draft_of("proposal.md", given.text.encode(), name, author, keep_metadata=True)
    text = (
        f"Draft {version.number} of {one_line(name)} waits for review. It is not published, and no search finds it. "
        f"A person publishes it with: surefind draft publish {version.number}."
    )
    return ToolReply(text, {"version": version.number, "document": name, "state": version.state})
