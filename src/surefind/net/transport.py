"""Makes `httpx` clients that obey `deadline.until`, using only the public interfaces of httpx and httpcore.

httpcore accepts a network backend, but httpx has no way to pass one on, so this is our own transport around httpcore's
pools, with proxies and certificates from the environment. An asynchronous client of httpx could be cancelled at the
deadline instead, but takes more than twice the time of a call (docs/results/llm.md).
"""

from __future__ import annotations

import ipaddress
import os
import ssl
import urllib.request
from functools import cache
from importlib.util import find_spec
from typing import Any

import httpcore
import httpx

from surefind.errors import MissingPartError, UsageError
from surefind.net.deadline import BoundedBackend

_KEEP_ALIVE_SECONDS = 5.0
"""Seconds that an idle connection is kept: httpx's default, and shorter than servers keep theirs."""


def bounded_client(connections: int, from_environment: bool) -> httpx.Client:
    """Makes a client that keeps `connections` open between requests. With `from_environment` it follows HTTP_PROXY,
    HTTPS_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE and SSL_CERT_DIR."""
    options: dict[str, Any] = {
        "ssl_context": _certificates(from_environment, *map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR"))),
        "max_connections": None,
        "max_keepalive_connections": connections,
        "keepalive_expiry": _KEEP_ALIVE_SECONDS,
        "network_backend": BoundedBackend(),
    }
    direct = _Transport(httpcore.ConnectionPool(**options))
    return httpx.Client(transport=direct, mounts=_routes(options) if from_environment else {})


@cache
def _certificates(from_environment: bool, *_places: str | None) -> ssl.SSLContext:
    """Reads the certificates once, which takes 20 ms; again if the environment names other places."""
    return httpx.create_ssl_context(trust_env=from_environment)


class _Transport(httpx.BaseTransport):
    """Sends a request and reads the whole answer. Errors are those of httpcore."""

    def __init__(self, pool: httpcore.ConnectionPool) -> None:
        self._pool = pool

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._pool.request(
            request.method,
            str(request.url),
            headers=request.headers.raw,
            content=request.read(),
            extensions=request.extensions,
        )
        return httpx.Response(answer.status, headers=answer.headers, content=answer.content)

    def close(self) -> None:
        self._pool.close()


# ---------------------------------------------------------------- proxies


def _routes(options: dict[str, Any]) -> dict[str, httpx.BaseTransport | None]:
    """URL pattern -> the proxy to use, or None for a direct connection. Patterns and NO_PROXY work as in httpx:
    `example.com` is the host and its subdomains, `.example.com` only its subdomains, `*` everything."""
    found = urllib.request.getproxies()
    direct = [host for host in map(str.strip, found.get("no", "").split(",")) if host]
    if "*" in direct:
        return {}
    schemes = [scheme for scheme in ("http", "https", "all") if found.get(scheme)]
    proxies = {f"{scheme}://": _proxied(scheme, found[scheme], options) for scheme in schemes}
    return {**proxies, **dict.fromkeys(map(_pattern, direct))}


def _pattern(host: str) -> str:
    if "://" in host:
        return host
    try:
        version = ipaddress.ip_address(host.partition("/")[0]).version
    except ValueError:
        return f"all://{host}" if host.lower() == "localhost" else f"all://*{host}"
    return f"all://[{host}]" if version == 6 else f"all://{host}"


def _proxied(scheme: str, address: str, options: dict[str, Any]) -> _Transport:
    """Makes a transport through a proxy. Errors do not repeat its address, which may contain a password."""
    url = httpx.URL(address if "://" in address else f"http://{address}")
    if url.scheme not in ("http", "https", "socks5", "socks5h"):
        raise UsageError(
            f"The proxy in {scheme.upper()}_PROXY has the scheme {url.scheme!r}. Write it like http://HOST:PORT."
        )
    proxy = httpx.Proxy(url)
    given = {"proxy_url": str(proxy.url), "proxy_auth": proxy.raw_auth, **options}
    if url.scheme in ("http", "https"):
        return _Transport(httpcore.HTTPProxy(**given))
    if find_spec("socksio") is None:
        raise MissingPartError(
            f"The proxy in {scheme.upper()}_PROXY needs the package socksio. Install it: pip install 'httpx[socks]'."
        )
    return _Transport(httpcore.SOCKSProxy(**given))
