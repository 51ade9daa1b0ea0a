"""API keys: `.surefind/keys.json` holds their hashes, never the keys themselves.

    sf_<id>_<secret>      the id finds the entry; the secret has 256 random bits

A secret of 256 random bits cannot be guessed, so one round of SHA-256 is enough, and a check costs microseconds. The
comparison takes the same time for a right and a wrong secret, and for an unknown id.

The first key of a knowledge base, made on a page.

Every user of the machine can call a server without keys, so nobody may make the first key there without a proof. The
proof is a link that `surefind serve` prints in its terminal. It works once, for a day, and only while
there is no key. The server holds a hash of its token, in memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import re
import secrets
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from surefind.base.access import EVERYTHING, Caller, checked_name, scopes_of
from surefind.base.disk.sealed import private_folder, read_sealed, write_sealed
from surefind.base.errors import ForbiddenError, StoreError, SurefindError, UsageError
from surefind.engine.store.database import file_version
from surefind.engine.store.lock import keys_lock

ANYONE = "anyone on this machine"
"""The name of all callers of an open server."""
TOKEN = "oidc:"
"""How the names of callers with a token begin. No key may have such a name: it says whose drafts and jobs these are."""


class NotAuthenticatedError(SurefindError):
    """The caller did not prove who it is."""


class UnwritableError(SurefindError):
    """What a caller needs cannot be written to `.surefind`."""

    def __init__(self, what: str, error: OSError) -> None:
        super().__init__(
            f"{what}: the server cannot write to the folder .surefind ({error.strerror}). Tell whoever runs it."
        )


FILE = "keys.json"
_FORMAT = 1
_KEY = re.compile(r"sf_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NOBODY = "0" * 64
_DAY = 86_400.0


@dataclass(frozen=True)
class Key:
    """An API key without its secret."""

    id: str
    name: str
    hash: str
    scopes: tuple[str, ...]
    groups: tuple[str, ...]
    created: float
    expires: float | None = None
    """Seconds since 1970; None for a key that does not expire."""
    revoked: float | None = None

    def live(self, now: float) -> bool:
        return self.revoked is None and (self.expires is None or now < self.expires)


class Keys:
    """The API keys of one knowledge base. Changes by other processes count from the next request on."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.path = data / FILE
        self._lock = threading.Lock()
        self._known: tuple[object, dict[str, Key]] = (None, {})

    def create(
        self,
        name: str,
        scopes: Iterable[str],
        groups: Iterable[str] = (),
        days: float | None = None,
        first: bool = False,
    ) -> tuple[Key, str]:
        """Makes a key; with `first`, only if there has never been one. Returns it with its text form, which is stored
        nowhere."""
        name, allowed = checked_name(name, "key"), scopes_of(scopes)
        if name.startswith(TOKEN):
            raise UsageError(f"The name of a key must not begin with {TOKEN}, as the names of tokens do.")
        if not allowed:
            raise UsageError("A key needs at least one scope: read, write, review or admin.")
        if days is not None and not 0 < days <= 36_500:
            raise UsageError(f"days must be above 0 and at most 36,500, not {days:g}.")
        listed = tuple(sorted(set(map(checked_name, groups))))
        now, secret = time.time(), secrets.token_urlsafe(32)
        made = Key(
            secrets.token_hex(6), name, _hash(secret), tuple(sorted(allowed)), listed, now, days and now + days * _DAY
        )
        with self._changing() as keys:
            if first and keys:  # another process may have made one since the caller looked
                raise UsageError("There is a key already. Sign in with it.")
            if any(key.name == name and key.live(now) for key in keys.values()):
                raise UsageError(f"There is a key called {name!r} already. Revoke it first, or choose another name.")
            keys[made.id] = made
        return made, f"sf_{made.id}_{secret}"

    def revoke(self, name: str) -> Key:
        """Revokes a key by its name or id, at once. Returns it."""
        now = time.time()
        with self._changing() as keys:
            matching = [key for key in keys.values() if name in (key.id, key.name) and key.revoked is None]
            if not matching:
                raise UsageError(f"There is no key {name!r} in use. List the keys with: surefind keys list.")
            for key in matching:
                keys[key.id] = replace(key, revoked=now)
        return matching[0]

    def list(self) -> list[Key]:
        """Returns all keys, oldest first."""
        return sorted(self._read().values(), key=lambda key: key.created)

    def any(self) -> bool:
        """Returns whether there is a key, revoked ones included: a server that had keys does not become open."""
        return bool(self._read())

    def caller(self, text: str) -> Caller:
        """Returns the caller of a key. Raises `NotAuthenticatedError` if the key is wrong, revoked or expired."""
        match = _KEY.fullmatch(text)
        key = self._read().get(match[1]) if match else None
        same = hmac.compare_digest(_hash(match[2] if match else ""), key.hash if key else _NOBODY)
        if key is None or not same or not key.live(time.time()):
            raise NotAuthenticatedError("The API key is not valid. Make one with: surefind keys create NAME.")
        return Caller(key.name, scopes_of(key.scopes), frozenset(key.groups))

    def _read(self) -> dict[str, Key]:
        """Returns the keys of the file, read again only if it has changed."""
        try:
            mark = file_version(self.path)
        except FileNotFoundError:
            return {}
        known, keys = self._known
        if known != mark:
            with self._lock:
                keys = self._load()
                self._known = mark, keys
        return keys

    def _load(self) -> dict[str, Key]:
        """Reads the file. A damaged file is an error and never "no keys", which would open the server."""
        try:
            content = read_sealed(self.path, _FORMAT)
            rows = (
                Key(**{**row, "scopes": tuple(row["scopes"]), "groups": tuple(row["groups"])})
                for row in content["keys"]
            )
            return {key.id: key for key in rows}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{self.path} cannot be used ({error}), so no key is accepted. Restore it from a backup, or delete it "
                "and make new keys."
            ) from None

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, Key]]:
        """Yields the keys to change, and writes them in one step. Other processes wait."""
        private_folder(self._data)
        with keys_lock(self._data):
            keys = self._load()
            yield keys
            data = {"format": _FORMAT, "keys": [asdict(key) for key in keys.values()]}
            write_sealed(self.path, data, private=True)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


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
        self._hash, self._ends = _hash_of_token(token), time.monotonic() + LASTS
        return f"{PATH}?token={token}"

    def check(self, token: str) -> None:
        """Raises `ForbiddenError` if a token is not that of the link, or comes too late."""
        same = hmac.compare_digest(_hash_of_token(token), self._hash or _hash_of_token(""))
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


def _hash_of_token(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
