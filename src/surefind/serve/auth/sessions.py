"""Sessions of browsers: a cookie stands for the key or token that somebody signed in with.

Each session is a file in `.surefind/sessions`, so that a new server knows it. The file is named by a hash of the cookie
and encrypted with it: whoever reads the files learns neither cookies nor keys. The key is checked again at every
request, so that a revoked key ends its sessions at once.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import secrets
import time
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

from surefind.disk.folders import private_folder
from surefind.disk.replacing import write_file
from surefind.serve.auth.caller import UnwritableError

COOKIE = "surefind_session"
LASTS = 12 * 3600
"""Seconds that a session lasts."""
_FOLDER = "sessions"
_MAX_SESSIONS = 10_000
"""Sessions that are kept, at most; the oldest ends first."""


class Sessions:
    """The sessions of the servers of a knowledge base."""

    def __init__(self, data: Path) -> None:
        self._folder = data / _FOLDER

    def begin(self, credential: str) -> str:
        """Returns the cookie for a key or token, which the caller has checked. Raises `UnwritableError`."""
        cookie = secrets.token_urlsafe(32)
        try:
            self._keep(cookie, credential)
        except OSError as error:
            raise UnwritableError("Your key is right, but you cannot be signed in", error) from error
        return cookie

    def _keep(self, cookie: str, credential: str) -> None:
        private_folder(self._folder)
        self._forget()
        sealed = _cipher(cookie).encrypt(credential.encode())
        write_file(self._path(cookie), sealed, private=True, durable=False)

    def authorization(self, cookie: str | None) -> str | None:
        """Returns the Authorization header that a cookie stands for; None if it stands for nothing."""
        if not cookie:
            return None
        try:
            decrypted = _cipher(cookie).decrypt(self._path(cookie).read_bytes(), ttl=LASTS)
        except (OSError, InvalidToken):  # there is none, it has ended, or the file is damaged
            return None
        return f"Bearer {decrypted.decode()}"

    def end(self, cookie: str | None) -> None:
        """Ends a session, if there is one."""
        with contextlib.suppress(OSError):
            self._path(cookie or "").unlink()

    def _path(self, cookie: str) -> Path:
        return self._folder / hashlib.sha256(b"name" + cookie.encode(errors="replace")).hexdigest()

    def _forget(self) -> None:
        """Deletes the files of sessions that have ended, and the oldest of too many."""
        with contextlib.suppress(OSError):
            begun = sorted((entry.stat().st_mtime, entry.path) for entry in os.scandir(self._folder))
            late = time.time() - LASTS
            for at, (when, path) in enumerate(begun):
                if when < late or len(begun) - at >= _MAX_SESSIONS:
                    with contextlib.suppress(OSError):
                        Path(path).unlink()


def _cipher(cookie: str) -> Fernet:
    key = hashlib.sha256(b"key" + cookie.encode(errors="replace")).digest()
    return Fernet(base64.urlsafe_b64encode(key))
