"""Finds the knowledge base of a folder.

The command line uses the nearest knowledge base, as git does: that of the current folder, or of the nearest parent with
a `surefind.toml` or a `.surefind`.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from surefind.base.errors import StoreError

FILE_NAME = "surefind.toml"
DATA_FOLDER = ".surefind"
_PRIVATE = 0o700
_OTHERS = 0o007


def nearest(start: Path) -> Path | None:
    """Finds the folder of the knowledge base that contains `start`, or None. The search goes up to the home folder, or
    to the root of the file system of `start`: folders above these belong to the machine, not to the user."""
    start = start.resolve()
    home = Path(os.path.expanduser("~")).resolve()  # noqa: PTH111 (Path.home raises for users without a home)
    device = _device(start)
    for folder in (start, *start.parents):
        if _device(folder) != device:
            return None
        folders = _marks(folder)
        if folders:
            if folder != start:
                _check_owner(folder, folders)
            return folder
        if folder == home:
            return None
    return None


def _device(folder: Path) -> int | None:
    """The number of the file system that a folder is on; None if it cannot be read."""
    try:
        return folder.stat().st_dev
    except OSError:
        return None


def _marks(folder: Path) -> list[Path]:
    """The files that make a folder a knowledge base. os.path, unlike Path, returns False for an unreadable folder."""
    settings, data = folder / FILE_NAME, folder / DATA_FOLDER
    return [path for path, there in ((settings, os.path.isfile), (data, os.path.isdir)) if there(path)]


def _check_owner(folder: Path, marks: list[Path]) -> None:
    """Refuses a knowledge base of another user. Settings can send text to any server, and anybody can put settings into
    a shared folder such as /tmp, so those of other users are used only if --kb names them."""
    for mark in marks:
        if mark.stat().st_uid not in (0, os.geteuid()):
            raise StoreError(f"{mark} belongs to another user. If you trust it, use it with: --kb {folder}.")


def private_folder(folder: Path) -> Path:
    """Creates a folder. If it is `.surefind` or below it, closes `.surefind` to other users, because it contains the
    text of every document. Access of the group is kept: its owner must have allowed it."""
    data = next((path for path in (folder, *folder.parents) if path.name == DATA_FOLDER), None)
    if data is not None:
        if not data.exists():
            data.parent.mkdir(parents=True, exist_ok=True)
            data.mkdir(mode=_PRIVATE, exist_ok=True)
        elif data.stat().st_mode & _OTHERS:
            with contextlib.suppress(PermissionError):  # the folder of another user
                data.chmod(_PRIVATE)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
