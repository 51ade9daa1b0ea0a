"""Reads the text and the JSON of files that somebody else may have written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from surefind.base.errors import ExamError


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """Returns the text of a file. Raises `ExamError` if it cannot be read or is not UTF-8."""
    try:
        return path.read_text(encoding=encoding)
    except UnicodeDecodeError as error:
        raise ExamError(f"{path} is not UTF-8 text (byte {error.start + 1}). Save it as UTF-8.") from None
    except OSError as error:
        raise ExamError(f"{path} cannot be read ({error.strerror}). Check the path.") from None


def read_row(text: str) -> Any:
    """Returns the value of a line of JSON that an exam will store. Raises `ValueError` as `read_json` does, and if a
    text in it cannot be stored: JSON can spell half of a character (`\\ud83d`)."""
    row = read_json(text)
    if "\\u" in text:
        try:
            json.dumps(row, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"it contains half of a character, {error.object[error.start]!r}") from None
    return row


def read_json(text: str) -> Any:
    """Returns the value of a JSON text. Raises `ValueError` if it is not JSON, or is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
