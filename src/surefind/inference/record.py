"""What lies beside a model that `surefind train encoder | reranker` made: how it came about, what it learnt from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORD = "record.json"


def record_of(folder: Path) -> dict[str, Any]:
    """Nothing for a model that came from elsewhere."""
    try:
        return dict(json.loads((folder / RECORD).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def questions_learnt(folder: Path) -> frozenset[str]:
    """The questions of an exam that it learnt from, as `question_key` writes them."""
    return frozenset(map(str, record_of(folder).get("learnt", ())))
