"""Reads the record beside a model that `surefind train encoder | reranker` made: how, and from which questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from surefind.base.disk.sealed import check_files, read_sealed
from surefind.base.errors import CorruptIndexError

RECORD = "record.json"


def record_of(folder: Path) -> dict[str, Any]:
    """The record of a model; empty for a model from elsewhere. Raises `CorruptIndexError` if it is damaged."""
    path = folder / RECORD
    if not path.is_file():
        return {}
    try:
        return read_sealed(path)
    except (OSError, ValueError) as error:
        raise _damaged(folder, error) from None


def check_record(folder: Path) -> None:
    """Checks the files of a model against its record. Raises `CorruptIndexError` if one differs."""
    try:
        check_files(folder, record_of(folder).get("files", {}))
    except (OSError, ValueError) as error:
        raise _damaged(folder, error) from None


def _damaged(folder: Path, error: Exception) -> CorruptIndexError:
    return CorruptIndexError(f"The model in {folder} is damaged ({error}). Train it again, or restore a backup.")


def questions_trained_on(folder: Path) -> frozenset[str]:
    """Keys (`question_key`) of the exam questions that the model was trained on."""
    return frozenset(map(str, record_of(folder).get("learnt", ())))
