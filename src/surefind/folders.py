"""Where a knowledge base is, and where the relative paths in its settings lead.

The command line uses the nearest knowledge base, as git does: that of the current folder, or of the nearest parent with
a `surefind.toml` or a `.surefind`.
"""

from __future__ import annotations

import os
from pathlib import Path

from surefind.errors import StoreError

FILE_NAME = "surefind.toml"
DATA_FOLDER = ".surefind"
_home_of_settings: list[Path] = []


def nearest(start: Path) -> Path | None:
    """The folder of the knowledge base that `start` lies in, or None. Parents are looked at up to the home folder, or
    up to the root of the file system that `start` is on: what lies above belongs to the machine, not to the user."""
    start = start.resolve()
    home = Path(os.path.expanduser("~")).resolve()  # noqa: PTH111 (Path.home raises where nobody has a home)
    device = _device(start)
    for folder in (start, *start.parents):
        if _device(folder) != device:
            return None
        found = _marks(folder)
        if found:
            if folder != start:
                _check_owner(folder, found)
            return folder
        if folder == home:
            return None
    return None


def _device(folder: Path) -> int | None:
    """The file system that a folder is on; None where that may not be known."""
    try:
        return folder.stat().st_dev
    except OSError:
        return None


def _marks(folder: Path) -> list[Path]:
    """What makes a folder a knowledge base; os.path answers False where a folder may not be read."""
    settings, data = folder / FILE_NAME, folder / DATA_FOLDER
    return [path for path, there in ((settings, os.path.isfile), (data, os.path.isdir)) if there(path)]


def _check_owner(folder: Path, marks: list[Path]) -> None:
    """Settings may send text to a server of their choice, so those that another user put above a folder that everybody
    may write to (such as /tmp) are not taken unasked."""
    for mark in marks:
        if mark.stat().st_uid not in (0, os.geteuid()):
            raise StoreError(f"{mark} belongs to another user. If you trust it, say so: --kb {folder}.")


def lead_from(folder: Path) -> None:
    """Relative paths in specs are looked for in this folder first: the command line has one knowledge base, and its
    settings mean the same wherever the command was called."""
    _home_of_settings[:] = [folder.resolve()]


def located(path: str) -> Path:
    """A path in a spec or in the settings: in the folder of the knowledge base, else as it is written."""
    plain = Path(path).expanduser()
    return next((folder / plain for folder in _home_of_settings if (folder / plain).exists()), plain)
