"""Notices a catalogue that is older than it should be: a file of a backup among newer ones.

Such a catalogue is whole, so no checksum finds it. The catalogue counts the sessions that wrote to it, and a file
beside it has the same number. The file is written last, so the catalogue is never behind it. If the file is missing or
damaged, only this check is lost; the next writer writes it again.
"""

from __future__ import annotations

import json
from pathlib import Path

from surefind.sealed import sealed, unsealed

NAME = "session.json"


def record(data: Path, catalogue: int, session: int) -> None:
    """Writes the number of the last session, and of the catalogue that it belongs to."""
    aside = data / f".{NAME}.writing"
    aside.write_text(json.dumps(sealed({"catalogue": catalogue, "session": session})), encoding="utf-8")
    aside.replace(data / NAME)


def recorded(data: Path) -> tuple[int, int]:
    """Returns the numbers of the catalogue and of its last session; zeros if the file is missing or damaged."""
    try:
        found = read(data)
        return int(found["catalogue"]), int(found["session"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return 0, 0


def read(data: Path) -> dict[str, int]:
    """Reads the file. Raises `ValueError` or `OSError`."""
    return unsealed(json.loads((data / NAME).read_text(encoding="utf-8")))
