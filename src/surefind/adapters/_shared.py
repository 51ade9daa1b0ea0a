"""What the adapters share: opening a folder, and what a framework's document says besides its text. It stands
alone because no adapter imports another: each needs a framework of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from surefind.base.access import Access
from surefind.base.types import Hit
from surefind.engine.search.hits import Extent
from surefind.engine.search.pipeline import Pipeline
from surefind.kb import KnowledgeBase


def opened(kb: KnowledgeBase | str | Path) -> KnowledgeBase:
    """Returns a knowledge base, opened if it is a folder."""
    return kb if isinstance(kb, KnowledgeBase) else KnowledgeBase.open(kb)


def hits(
    kb: KnowledgeBase, query: str, access: Access, k: int | None, pipeline: str | Pipeline | None, extent: Extent
) -> tuple[Hit, ...]:
    """Searches. Frameworks have no place for a confidence, so it is computed only if the settings have a minimum."""
    needed = kb.settings.min_confidence > 0
    return kb.search(query, access, k, pipeline, extent=extent, confidence=None if needed else "off").hits


def metadata(hit: Hit) -> dict[str, Any]:
    """Returns the fields of a hit without its text and its stages; the document's own metadata is in `metadata`."""
    return {name: value for name, value in hit.to_dict().items() if name not in ("text", "stages")}
