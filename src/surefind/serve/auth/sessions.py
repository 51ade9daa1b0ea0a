"""Sessions of browsers: a cookie stands for the key or token that somebody signed in with.

The key stays in the memory of the server and is checked again at every request, so that a revoked key ends its sessions
at once. A new server knows no sessions: people sign in again.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict

COOKIE = "surefind_session"
LASTS = 12 * 3600
"""Seconds that a session lasts."""
_MOST = 10_000
"""Sessions that are remembered, at most; the oldest ends first."""


class Sessions:
    """The sessions of this server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def begin(self, credential: str) -> str:
        """Returns the value of the cookie for a key or token, which the caller has checked."""
        name = secrets.token_urlsafe(32)
        with self._lock:
            self._known[name] = credential, time.monotonic() + LASTS
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
        return name

    def authorization(self, cookie: str | None) -> str | None:
        """Returns the Authorization header that a cookie stands for; None if it stands for nothing."""
        if not cookie:
            return None
        with self._lock:
            credential, ends = self._known.get(cookie, ("", 0.0))
            if not credential:
                return None
            if time.monotonic() > ends:
                del self._known[cookie]
                return None
        return f"Bearer {credential}"

    def end(self, cookie: str | None) -> None:
        """Ends a session, if there is one."""
        with self._lock:
            self._known.pop(cookie or "", None)
