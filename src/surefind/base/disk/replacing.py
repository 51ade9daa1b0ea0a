"""Replaces a file or a folder in one step: whoever reads it, at any time, sees the old one or the new one, and never a
part."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path


def write_file(path: Path, data: bytes | str, *, private: bool = False, durable: bool = True) -> None:
    """Puts a file in the place of the one that is there, if any; another name of that one keeps its content.

    The new file has the permissions of the old one. With `private`, only its owner may read it. It survives a machine
    that stops, unless it need not be `durable`, as in a cache. If it cannot be written, the old one stays."""
    aside = path.with_name(f".{secrets.token_hex(8)}.writing")
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if not private and path.exists():
            shutil.copymode(path, aside)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def replace_folder(made: Path, place: Path) -> None:
    """Moves a folder, which was made beside it, into the place of the one that is there, if any."""
    old = place.with_name(f".{place.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if place.exists():
        place.rename(old)
    made.rename(place)
    shutil.rmtree(old, ignore_errors=True)
