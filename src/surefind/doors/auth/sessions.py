"""Sessions of browsers: a cookie stands for the key or token that somebody signed in with.

Each session is a file in `.surefind/sessions`, so that a new server knows it. The file is named by a hash of the cookie
and encrypted with it: whoever reads the files learns neither cookies nor keys. The key is checked again at every
request, so that a revoked key ends its sessions at once.

Each caller has a folder of their own, named by a hash of the name, with which the cookie begins. So the number of
sessions is limited for each caller, and nobody's sign-ins end the sessions of others.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import re
import secrets
import time
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

from surefind.base.disk.sealed import private_folder, write_file
from surefind.base.running import started
from surefind.doors.auth.keys import UnwritableError

COOKIE = "surefind_session"
LASTS = 12 * 3600
"""Seconds that a session lasts."""
_FOLDER = "sessions"
_MAX_SESSIONS = 1_000
"""Sessions of one caller that are kept, at most; the oldest ends first."""
_FORGET_SECONDS = 600.0
"""Seconds between two searches for sessions that have ended."""
_COOKIE = re.compile(r"([0-9a-f]{16})\.[A-Za-z0-9_-]{43}")


class Sessions:
    """The sessions of the servers of a knowledge base."""

    def __init__(self, data: Path) -> None:
        self._folder = data / _FOLDER
        self._forgotten = float("-inf")

    def begin(self, caller: str, credential: str) -> str:
        """Returns the cookie for a key or token of a caller, who was checked. Raises `UnwritableError`. It reads and
        writes files: not for the event loop."""
        cookie = f"{_hash('caller', caller)[:16]}.{secrets.token_urlsafe(32)}"
        try:
            self._keep(cookie, credential)
        except OSError as error:
            raise UnwritableError("Your key is right, but you cannot be signed in", error) from error
        if time.monotonic() - self._forgotten > _FORGET_SECONDS:
            self._forgotten = time.monotonic()
            started(self._forget)
        return cookie

    def _keep(self, cookie: str, credential: str) -> None:
        path = self._folder / str(_place(cookie))
        private_folder(self._folder)
        private_folder(path.parent)
        _end_oldest(path.parent, _MAX_SESSIONS - 1)
        sealed = _cipher(cookie).encrypt(credential.encode())
        write_file(path, sealed, private=True, durable=False)

    def authorization(self, cookie: str | None) -> str | None:
        """Returns the Authorization header that a cookie stands for; None if it stands for nothing."""
        place = _place(cookie)
        if cookie is None or place is None:
            return None
        try:
            sealed = (self._folder / place).read_bytes()
            decrypted = _cipher(cookie).decrypt(sealed)
            begun = _cipher(cookie).extract_timestamp(sealed)
        except (OSError, InvalidToken):  # there is none, it has ended, or the file is damaged
            return None
        return f"Bearer {decrypted.decode()}" if _holds(begun) else None

    def end(self, cookie: str | None) -> None:
        """Ends a session, if there is one."""
        place = _place(cookie)
        if place is not None:
            with contextlib.suppress(OSError):
                (self._folder / place).unlink()

    def _forget(self) -> None:
        """Deletes the files of sessions that have ended, of all callers."""
        with contextlib.suppress(OSError):
            for folder in os.scandir(self._folder):
                with contextlib.suppress(OSError):
                    if folder.is_dir(follow_symlinks=False):
                        _end_oldest(Path(folder.path), _MAX_SESSIONS)
                    else:
                        Path(folder.path).unlink()


def _end_oldest(folder: Path, most: int) -> None:
    """Deletes the sessions of one caller that have ended, and the oldest of more than `most`."""
    begun: list[tuple[float, str]] = []
    for entry in os.scandir(folder):
        with contextlib.suppress(OSError):  # another thread has deleted it
            begun.append((entry.stat().st_mtime, entry.path))
    for at, (when, path) in enumerate(sorted(begun)):
        if not _holds(when) or len(begun) - at > most:
            with contextlib.suppress(OSError):
                Path(path).unlink()


def _holds(begun: float) -> bool:
    """Returns whether a session that began then has not ended. It may have begun later than now: the clock of a machine
    is set back sometimes, which must not sign everybody out."""
    return abs(time.time() - begun) < LASTS


def _place(cookie: str | None) -> Path | None:
    """Returns where the session of a cookie is, in the folder of sessions; None if this is no cookie of ours."""
    match = _COOKIE.fullmatch(cookie or "")
    return Path(match[1], _hash("name", match[0])) if match else None


def _hash(what: str, text: str) -> str:
    return hashlib.sha256(f"{what}{text}".encode(errors="replace")).hexdigest()


def _cipher(cookie: str) -> Fernet:
    key = hashlib.sha256(b"key" + cookie.encode(errors="replace")).digest()
    return Fernet(base64.urlsafe_b64encode(key))
