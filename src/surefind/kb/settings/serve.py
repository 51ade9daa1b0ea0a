"""The settings of the server: the table `[serve]` of surefind.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit

from surefind.base.access import SCOPES, checked_name
from surefind.base.errors import ConfigError, UsageError, choices
from surefind.base.running import usable_cores
from surefind.engine.net.trust import host_of, is_local


@dataclass(frozen=True)
class Oidc:
    issuer: str
    audience: str
    groups_claim: str = "groups"
    jwks_url: str = ""
    """Where the provider's public keys are; found through the issuer if empty."""
    scopes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The groups that have a scope. Every valid token may read."""

    def __post_init__(self) -> None:
        for name in ("issuer", "jwks_url"):
            url = getattr(self, name)
            if url and not _is_private(url):
                raise ConfigError(f"{name} below [serve.oidc] must be an https address, not {url!r}.")
        if not self.issuer or not self.audience:
            raise ConfigError("[serve.oidc] needs an issuer and an audience.")
        if {"#", "?"} & set(self.issuer):
            raise ConfigError(f"issuer below [serve.oidc] must be an address without ? and #, not {self.issuer!r}.")
        wrong = self.scopes.keys() - set(SCOPES)
        if wrong:
            raise ConfigError(f"[serve.oidc] has no scope {min(wrong)!r}. Choices: {', '.join(SCOPES)}.")


def _is_private(url: str) -> bool:
    """Returns whether nobody between can read or change what comes from this address: it is https, or this machine."""
    host = host_of(url)
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return False
    plain = f"[{host}]{port}" if ":" in host else f"{host}{port}"
    if not host or parts.netloc.lower() != plain or not url.isprintable():  # a user, or what programs read differently
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_local(url))


_OIDC = tuple(field.name for field in fields(Oidc))


@dataclass(frozen=True)
class ServeSettings:
    host: str = "127.0.0.1"
    port: int = 8080
    max_k: int = 100
    """Hits of one request, at most."""
    max_query: int = 2_000
    """Characters of a query, at most."""
    max_body_kb: int = 256
    """The size of a request's body, except uploads: these may have `max_file_mb` below [sync]."""
    timeout: float = 30.0
    """Seconds for a request, at most."""
    workers: int = min(usable_cores() + 1, 8) if usable_cores() > 1 else 1
    """Processes that search, once two searches run at the same time; with 0 or 1, the server searches itself. One more
    than there are cores: each waits a quarter of its time for the server."""
    concurrency: int = 0
    """Requests that are worked on at once; 0 for two for each core."""
    queue: int = 1_000
    """Requests that may wait; others are refused."""
    streams: int = 400
    """Streams that are open at once, apart from other requests: events of jobs, answers, tools for agents."""
    streams_per_caller: int = 100
    """Streams of one caller."""
    heavy: int = 0
    """Uploads that are worked on at once, and as many differences; 0 for one for each core, and at least two."""
    heavy_per_caller: int = 8
    """Uploads of one caller that run or wait, and as many differences and previews."""
    answers: int = 32
    """Answers and searches that wait for another server at once, such as a language model; of one caller, half."""
    answer_timeout: float = 200.0
    """Seconds for an answer, at most: a language model may take long."""
    requests_per_minute: int = 0
    """Requests of one caller; 0 for no limit."""
    cache_mb: int = 32
    """Memory for answers that can be given again."""
    allowed_hosts: tuple[str, ...] = ()
    """Names by which browsers may call the server, besides its own host."""
    oidc: Oidc | None = None

    @property
    def threads(self) -> int:
        return self.concurrency or 2 * usable_cores()

    @property
    def heavy_workers(self) -> int:
        return self.heavy or max(2, usable_cores())


def serve_settings(given: Mapping[str, Any], **replaced: Any) -> ServeSettings:
    """Reads the table. Raises `ConfigError` that names the wrong setting."""
    known = {field.name: field for field in fields(ServeSettings)}
    values: dict[str, Any] = {}
    for key, value in {**given, **replaced}.items():
        if key not in known:
            raise ConfigError(f"[serve] has no setting {key!r}. {choices(key, known)}")
        values[key] = _oidc(value) if key == "oidc" else _checked(key, value, known[key].default)
    return ServeSettings(**values)


def _checked(key: str, value: Any, default: Any) -> Any:
    if isinstance(default, tuple):
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
            raise ConfigError(f"{key} below [serve] must be a list of strings, not {value!r}.")
        return tuple(value)
    wanted: Any = (int, float) if isinstance(default, float) else (type(default),)
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise ConfigError(f"{key} below [serve] must be {'text' if wanted == (str,) else 'a number'}, not {value!r}.")
    least = 0 if key in ("workers", "concurrency", "heavy", "requests_per_minute", "cache_mb", "port") else 1
    if not isinstance(value, str) and value < least:
        raise ConfigError(f"{key} below [serve] must be at least {least}, not {value}.")
    if key == "port" and value > 65_535:
        raise ConfigError(f"port below [serve] must be at most 65535, not {value}.")
    return value


def _oidc(given: Any) -> Oidc:
    if not isinstance(given, Mapping):
        raise ConfigError("[serve.oidc] must be a table with an issuer and an audience.")
    for key, value in given.items():
        if key not in _OIDC:
            raise ConfigError(f"[serve.oidc] has no setting {key!r}. {choices(key, _OIDC)}")
        if key != "scopes" and not isinstance(value, str):
            raise ConfigError(f"{key} below [serve.oidc] must be text, not {value!r}.")
    scopes = given.get("scopes", {})
    if not isinstance(scopes, Mapping) or not all(isinstance(groups, list) for groups in scopes.values()):
        raise ConfigError('scopes below [serve.oidc] must be a table of lists of groups: { write = ["editors"] }.')
    about = {key: value for key, value in given.items() if key != "scopes"}
    try:
        allowed = {name: tuple(checked_name(str(group)) for group in groups) for name, groups in scopes.items()}
    except UsageError as error:
        raise ConfigError(f"[serve.oidc] has a wrong name. {error}") from None
    return Oidc(**{"issuer": "", "audience": "", **about}, scopes=allowed)
