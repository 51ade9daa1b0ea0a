"""Reads the record beside a model that `surefind train encoder | reranker` made: how, and from which questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORD = "record.json"


def record_of(folder: Path) -> dict[str, Any]:
    """The record of a model; empty for a model from elsewhere."""
    try:
        return dict(json.loads((folder / RECORD).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def questions_learnt(folder: Path) -> frozenset[str]:
    """Keys (`question_key`) of the exam questions that the model was trained on."""
    return frozenset(map(str, record_of(folder).get("learnt", ())))
