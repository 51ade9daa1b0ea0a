"""Finds out who calls: by an API key, by a token, or, on this machine only, by nothing at all."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from surefind.base.access import checked_name
from surefind.base.errors import UsageError
from surefind.base.running.cache import BoundedCache
from surefind.doors.auth.caller import ANYONE, Caller, NotAuthenticatedError
from surefind.doors.auth.keys import Keys
from surefind.doors.auth.tokens import Tokens
from surefind.kb.settings.serve import Oidc

LOOPBACK = ("127.0.0.1", "::1", "localhost")
_FAILURES, _WINDOW = 20, 60.0
"""Wrong keys that one address may send in a minute before it has to wait."""
_MAX_ADDRESSES = 10_000
"""Addresses that are remembered, at most."""


class TooManyError(NotAuthenticatedError):
    """This address sent too many wrong keys."""


class Gatekeeper:
    """Authenticates callers. `is_open` says that everybody who can connect is let in, with the groups `groups`."""

    def __init__(self, keys: Keys, oidc: Oidc | None, host: str, groups: Iterable[str] = ()) -> None:
        self._keys = keys
        self._tokens = Tokens(oidc) if oidc else None
        self.is_open = self._tokens is None and not keys.any()
        if self.is_open and host not in LOOPBACK:
            raise UsageError(
                f"A server on {host} needs to know its callers. Make an API key first (surefind keys create NAME), or "
                "set [serve.oidc] in surefind.toml. Without either, serve on 127.0.0.1."
            )
        known = frozenset(map(checked_name, groups))
        self._anyone = Caller(ANYONE, frozenset({"read", "write", "review"}), known)
        self._lock = threading.Lock()
        self._failures: BoundedCache[str, list[float]] = BoundedCache(_MAX_ADDRESSES)

    @property
    def lets_everybody_in(self) -> bool:
        """Whether every caller is let in without a name: there is neither a key nor a provider of tokens."""
        return self.is_open and not self._keys.any()

    def caller(self, authorization: str | None, address: str) -> Caller:
        """Returns the caller of a request, from its Authorization header. Raises `NotAuthenticatedError`."""
        if self.lets_everybody_in:
            return self._anyone
        kind, _, text = (authorization or "").partition(" ")
        if kind.lower() != "bearer" or not text.strip():
            raise NotAuthenticatedError("Send an API key or a token: Authorization: Bearer …")
        try:
            return self._of(text.strip())
        except NotAuthenticatedError:
            self._count_failure(address)
            raise

    def needs_network(self, authorization: str | None) -> bool:
        """Returns whether finding out who calls needs the keys of the provider of tokens, which may be slow."""
        text = (authorization or "").partition(" ")[2].strip()
        return self._tokens is not None and not text.startswith("sf_") and not self._tokens.knows_key_of(text)

    def _of(self, text: str) -> Caller:
        if text.startswith("sf_") or self._tokens is None:
            return self._keys.caller(text)
        return self._tokens.caller(text)

    def _count_failure(self, address: str) -> None:
        """Notes a wrong key. Raises `TooManyError` if its address sent too many of them; a right key is never refused,
        since others may share the address."""
        now = time.monotonic()
        with self._lock:
            recent = [at for at in self._failures.get(address) or () if now - at < _WINDOW]
            self._failures.put(address, [*recent[-_FAILURES:], now])
        if len(recent) >= _FAILURES:
            raise TooManyError("Too many wrong keys came from this address. Try again in a minute.")
