"""The first key of a knowledge base, made on a page.

Every user of the machine can call a server without keys, so nobody may make the first key there without a proof. The
proof is a link that `surefind serve` prints in its terminal. It works once, for a day, and only while
there is no key. The server holds a hash of its token, in memory.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time

from surefind.base.access import EVERYTHING
from surefind.base.errors import ForbiddenError
from surefind.doors.auth.caller import UnwritableError
from surefind.doors.auth.keys import Key, Keys

LASTS = 24 * 3600
"""Seconds that the link works."""
PATH = "/first-key"
_AGAIN = "Start the server again for a new one, or run: surefind keys create NAME --scope admin --as '*'."


class FirstKey:
    """The link of one server to the page that makes the first key."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._hash = ""
        self._ends = 0.0

    def link(self) -> str:
        """Returns the path of the link, which is stored nowhere. Earlier ones stop working."""
        token = secrets.token_urlsafe(32)
        self._hash, self._ends = _hash(token), time.monotonic() + LASTS
        return f"{PATH}?token={token}"

    def check(self, token: str) -> None:
        """Raises `ForbiddenError` if a token is not that of the link, or comes too late."""
        same = hmac.compare_digest(_hash(token), self._hash or _hash(""))
        if not token or not same or not self._hash:
            wrong = "This link is not the one" if token else "Open the link"
            raise ForbiddenError(f"{wrong} that the server printed when it started. {_AGAIN}")
        if time.monotonic() >= self._ends:
            raise ForbiddenError(f"This link worked for {LASTS // 3600} hours. {_AGAIN}")
        if self._keys.any():
            raise ForbiddenError("There is a key already, so this link makes none. Sign in with a key.")

    def create(self, token: str, name: str) -> tuple[Key, str]:
        """Makes the key of the owner. Returns it with its text form. The link stops working."""
        self.check(token)
        try:
            made = self._keys.create(name, ["admin"], [EVERYTHING], first=True)
        except OSError as error:
            raise UnwritableError("The key cannot be made", error) from error
        self._hash = ""
        return made


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
