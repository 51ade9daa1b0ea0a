"""Finds out who calls: by an API key, by a token, or, on this machine only, by nothing at all.

Tokens of an identity provider (OpenID Connect): a signed JWT whose groups claim becomes the caller's groups.

    [serve.oidc]
    issuer = "https://login.example.com"
    audience = "surefind"
    groups_claim = "groups"                       # the claim with the caller's groups
    scopes = { write = ["editors"], admin = ["kb-admins"] }    # groups that may do more than read

The signature is checked with the public keys of the provider, and with asymmetric algorithms only: with a symmetric one
or none, whoever knows the public key could sign. Issuer, audience and expiry must be right. A person is the issuer and
the whole subject: `oidc:login.example.com#ada`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from surefind.base.access import EVERYTHING, SCOPES, Caller, Scope, checked_name
from surefind.base.errors import ConfigError, UsageError
from surefind.base.running import BoundedCache
from surefind.doors.auth.keys import ANYONE, TOKEN, Keys, NotAuthenticatedError
from surefind.kb.settings.serve import Oidc

_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
_LEEWAY = 30
"""Seconds by which the clocks of two machines may differ."""
_MAX_TOKEN_CHARS = 16_384
_DOWNLOAD_EVERY_SECONDS = 60.0
"""Seconds between two downloads of the provider's keys: an unknown key id must not make one for each request."""
_PROVIDER_SECONDS = 10.0
"""Seconds to wait for the provider."""


class Tokens:
    """Checks tokens. The provider's keys are downloaded when the first token comes, and kept."""

    def __init__(self, settings: Oidc) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._keys: dict[str, Any] = {}
        self._loaded = float("-inf")

    def caller(self, text: str) -> Caller:
        """Returns the caller of a token. Raises `NotAuthenticatedError` if it is not valid."""
        import jwt

        given = self._settings
        try:
            if len(text) > _MAX_TOKEN_CHARS:
                raise jwt.InvalidTokenError("it is too long")
            claims = jwt.decode(
                text,
                self._key(jwt.get_unverified_header(text)),
                algorithms=_ALGORITHMS,
                audience=given.audience,
                issuer=given.issuer,
                leeway=_LEEWAY,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as error:
            raise NotAuthenticatedError(f"The token is not valid: {error}.") from None
        return self._caller(claims)

    def knows_key_of(self, text: str) -> bool:
        """Returns whether the token can be checked without the network."""
        import jwt

        try:
            return len(text) > _MAX_TOKEN_CHARS or str(jwt.get_unverified_header(text).get("kid", "")) in self._keys
        except jwt.PyJWTError:  # it is refused as it is
            return True

    def _caller(self, claims: Mapping[str, Any]) -> Caller:
        given: Any = claims.get(self._settings.groups_claim, ())
        groups = claimed_groups(
            given.split(" ") if isinstance(given, str) else given if isinstance(given, list) else ()
        )
        scopes: set[Scope] = {"read"}
        scopes |= {scope for scope in SCOPES if groups & set(self._settings.scopes.get(scope, ()))}
        return Caller(self._name(claims.get("sub")), frozenset(scopes), groups)

    def _name(self, subject: object) -> str:
        """Returns the name of a person, which no other person has: their drafts and jobs are found by it."""
        try:
            name = checked_name(subject if isinstance(subject, str) else "", "subject")
        except UsageError as error:
            raise NotAuthenticatedError(f"The token is not valid: {error}") from None
        if name != subject:  # another subject may have this form
            raise NotAuthenticatedError("The token is not valid: its subject has blanks around it, or is not NFC.")
        return f"{TOKEN}{self._settings.issuer.removeprefix('https://')}#{name}"

    def _key(self, header: Mapping[str, Any]) -> Any:
        import jwt

        wanted = str(header.get("kid", ""))
        if header.get("alg") not in _ALGORITHMS:
            raise jwt.InvalidTokenError("its algorithm is not accepted")
        if wanted in self._keys:  # without the lock, which is held while keys are downloaded
            return self._keys[wanted]
        with self._lock:
            if wanted not in self._keys and time.monotonic() - self._loaded > _DOWNLOAD_EVERY_SECONDS:
                self._loaded = time.monotonic()
                self._keys = self._download()
        if wanted in self._keys:
            return self._keys[wanted]
        if not wanted and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        raise jwt.InvalidTokenError("its signing key is unknown")

    def _download(self) -> dict[str, Any]:
        import json

        import jwt

        try:
            url = self._settings.jwks_url
            if not url:
                about = json.loads(_get(self._settings.issuer.rstrip("/") + "/.well-known/openid-configuration"))
                url = Oidc(self._settings.issuer, self._settings.audience, jwks_url=str(about["jwks_uri"])).jwks_url
            key_set = jwt.PyJWKSet.from_json(_get(url))
        except (OSError, ValueError, KeyError, TypeError, ConfigError, jwt.PyJWTError) as error:
            raise jwt.InvalidTokenError(f"the keys of the identity provider cannot be read ({error})") from None
        return {str(key.key_id or ""): key for key in key_set.keys}


def _get(url: str) -> str:
    """Downloads a small text. Redirects are not followed: an address stands in the settings."""
    import urllib.request

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    with urllib.request.build_opener(Stay).open(url, timeout=_PROVIDER_SECONDS) as answer:
        return bytes(answer.read(1_000_000)).decode()


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


def claimed_groups(names: Iterable[object]) -> frozenset[str]:
    """Returns the groups that a token names. `*` means every document here and a plain name elsewhere, so a token never
    gives it. What cannot be the name of a group is in no access list either, and is left out."""
    groups = set()
    for name in names:
        if isinstance(name, str | int) and not isinstance(name, bool):
            with contextlib.suppress(UsageError):
                groups.add(checked_name(str(name)))
    return frozenset(groups - {EVERYTHING})
