"""What the adapters share: opening a folder, and what a framework's document says besides its text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from surefind.kb import KnowledgeBase
from surefind.types import Hit


def opened(kb: KnowledgeBase | str | Path) -> KnowledgeBase:
    """Returns a knowledge base, opened if it is a folder."""
    return kb if isinstance(kb, KnowledgeBase) else KnowledgeBase.open(kb)


def metadata(hit: Hit) -> dict[str, Any]:
    """Returns the fields of a hit without its text and its stages; the document's own metadata is in `metadata`."""
    return {name: value for name, value in hit.to_dict().items() if name not in ("text", "stages")}
