"""Surefind: a retrieval engine for knowledge bases that measures itself."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

# onnxruntime sends events to its maker, unless this is set before it is loaded. Nothing leaves the machine by default.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

if TYPE_CHECKING:
    from surefind.base.access import Access
    from surefind.base.errors import SpecError, SurefindError
    from surefind.base.spec import Stage, make, require
    from surefind.base.types import PAD, Chunk, Document, Hit, Query, Rankings, SearchResult
    from surefind.engine.search.pipeline import Pipeline
    from surefind.kb import KnowledgeBase

__version__ = "0.1.0"

__all__ = [
    "PAD",
    "Access",
    "Chunk",
    "Document",
    "Hit",
    "KnowledgeBase",
    "Pipeline",
    "Query",
    "Rankings",
    "SearchResult",
    "SpecError",
    "Stage",
    "SurefindError",
    "__version__",
    "make",
    "require",
]

_HOMES = {
    "Access": "surefind.base.access",
    "KnowledgeBase": "surefind.kb",
    "Pipeline": "surefind.engine.search.pipeline",
    "SpecError": "surefind.base.errors",
    "Stage": "surefind.base.spec",
    "SurefindError": "surefind.base.errors",
    "make": "surefind.base.spec",
    "require": "surefind.base.spec",
}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used, so that `import surefind` is fast."""
    if name not in __all__:
        raise AttributeError(f"module 'surefind' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES.get(name, "surefind.base.types")), name)
