"""Tokens of an identity provider (OpenID Connect): a signed JWT whose groups claim becomes the caller's groups.

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

import threading
import time
from collections.abc import Mapping
from typing import Any

from surefind.base.access import SCOPES, Scope, checked_name
from surefind.base.errors import ConfigError, UsageError
from surefind.doors.auth.caller import TOKEN, Caller, NotAuthenticatedError, claimed_groups
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
