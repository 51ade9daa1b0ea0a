"""All targets of the fuzzer."""

from __future__ import annotations

from pathlib import Path

import _answers
import _importing
import _reading
import _searching
import _settings
from _target import Target


def targets(folder: Path) -> list[Target]:
    """Makes the targets; `folder` is for their files."""
    parts = (_settings, _answers, _importing, _reading, _searching)
    return [target for part in parts for target in part.targets(folder)]
