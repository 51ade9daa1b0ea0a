"""Turns values of ours into what JSON can hold."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any


def plain(value: Any) -> Any:
    """Returns what JSON holds of a value of ours: the fields of a dataclass, the text of a path, a list."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Path):
        return str(value)
    return dict(value) if hasattr(value, "keys") else list(value)
