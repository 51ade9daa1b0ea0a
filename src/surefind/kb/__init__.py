"""A knowledge base: the interface that every door uses, and the rules of what may be done with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surefind.kb.knowledge_base import KnowledgeBase

__all__ = ["KnowledgeBase"]


def __getattr__(name: str) -> Any:
    """Imports the class when it is first used, because settings and drafts are also used without it."""
    if name != "KnowledgeBase":
        raise AttributeError(f"module 'surefind.kb' has no attribute {name!r}")
    from surefind.kb.knowledge_base import KnowledgeBase

    return KnowledgeBase
