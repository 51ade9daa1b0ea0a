"""Who may read each document, and why: what `surefind access` shows."""

from __future__ import annotations

from dataclasses import dataclass

from surefind.base.access import EVERYTHING, PUBLIC, Access, AccessList, access_lists
from surefind.engine.store.failures import explaining
from surefind.kb import KnowledgeBase


@dataclass(frozen=True)
class Decision:
    """The access lists of a document. Without any, nobody decided, and everybody may read it."""

    document: str
    lists: list[AccessList]

    @property
    def readers(self) -> str:
        """Who may read the document: `everybody`, `hr or audit`, `(hr or audit) and staff`, `the owner`."""
        limits = [
            tuple(group for group in access_list.groups if group != EVERYTHING)
            for access_list in self.lists
            if PUBLIC not in access_list.groups
        ]
        if not all(limits):
            return "the owner"
        named = [" or ".join(groups) for groups in dict.fromkeys(limits)]
        return " and ".join(f"({name})" if " or " in name and len(named) > 1 else name for name in named) or "everybody"

    @property
    def reason(self) -> str:
        """Where the lists are written."""
        return " and ".join(access_list.origin for access_list in self.lists) or "nobody restricted it"

    def admits(self, access: Access) -> bool:
        """Returns whether the caller may read the document; filters do not count."""
        return access.admits(access_list.groups for access_list in self.lists)


def decisions(base: KnowledgeBase) -> list[Decision]:
    """Returns the decision about each document of the current generation, in order of id."""
    rules = base.settings.access
    with explaining(base.data):
        members = base.catalogue.members(base.catalogue.snapshot_id())
    made = [Decision(m.document, access_lists(m.acl, (m.path, m.document), rules)) for m in members]
    return sorted(made, key=lambda decision: decision.document)
