"""Surefind: a retrieval engine for knowledge bases that measures itself."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

# onnxruntime sends events to its maker, unless this is set before it is loaded. Nothing leaves the machine by default.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

if TYPE_CHECKING:
    from surefind.access import Access
    from surefind.errors import SurefindError
    from surefind.kb import KnowledgeBase
    from surefind.search.pipeline import Pipeline
    from surefind.types import Chunk, Document, Hit, Query, Rankings, SearchResult

__version__ = "0.1.0"

__all__ = [
    "Access",
    "Chunk",
    "Document",
    "Hit",
    "KnowledgeBase",
    "Pipeline",
    "Query",
    "Rankings",
    "SearchResult",
    "SurefindError",
    "__version__",
]

_HOMES = {
    "Access": "surefind.access",
    "KnowledgeBase": "surefind.kb",
    "Pipeline": "surefind.search.pipeline",
    "SurefindError": "surefind.errors",
}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used, so that `import surefind` is fast."""
    if name not in __all__:
        raise AttributeError(f"module 'surefind' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES.get(name, "surefind.types")), name)
