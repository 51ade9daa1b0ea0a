"""How a process of ours ends when something fails: with a message and an exit code, or at once."""

from __future__ import annotations

import os
import sqlite3
import sys
from typing import NoReturn

from surefind.base.errors import DeniedError, DiskFullError, StoreError, denied_message, is_denied, is_full
from surefind.base.running.workers import still_working

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT, as shells report it."""


def explained(error: OSError | sqlite3.Error) -> StoreError | None:
    """Turns an error of the disk into a message with advice; None for an error that is a defect of ours."""
    if is_full(error):
        return DiskFullError(
            f"The disk is full ({error}). Existing data is intact; free some space and run the command again."
        )
    if is_denied(error):
        return DeniedError(denied_message(error))
    if isinstance(error, OSError) and error.errno is not None:
        where = error.filename or "A file"
        return StoreError(f"{where} cannot be used ({error.strerror}). Check the disk, and run the command again.")
    if isinstance(error, sqlite3.DatabaseError):
        return StoreError(f"A file of the knowledge base is damaged ({error}). Find it with: surefind doctor.")
    return None


def leave() -> NoReturn:
    """Exits after Ctrl-C. If a call is still running, exits without clean-up, because clean-up would free the model
    that the running thread is using."""
    if still_working():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    sys.exit(INTERRUPTED)
