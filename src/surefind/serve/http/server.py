"""Runs the server: says where it listens and who may call, answers, and stops without dropping a request."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable

from surefind.errors import UsageError
from surefind.kb import KnowledgeBase
from surefind.serve.http.app import create_app
from surefind.serve.http.settings import ServeSettings

_GRACE = 30
"""Seconds that running requests have after a signal to stop."""


def serve(kb: KnowledgeBase, settings: ServeSettings, groups: Iterable[str], say: Callable[[str], None]) -> None:
    """Serves until a signal comes. `say` gets the first lines, once the address is bound."""
    import uvicorn

    app = create_app(kb, settings, groups)
    bound = _bound(settings.host, settings.port)
    host, port = bound.getsockname()[:2]
    say(f"Serving {kb.folder} on http://{f'[{host}]' if ':' in host else host}:{port}  (documentation: /docs)")
    say(_who(kb, settings, sorted(groups)))
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_graceful_shutdown=_GRACE, timeout_keep_alive=75,
        server_header=False, date_header=False, proxy_headers=False, backlog=2048, h11_max_incomplete_event_size=65_536,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[bound])


def _bound(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family[0], socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(family[4])
    except OSError as error:
        raise UsageError(
            f"Cannot listen on {host}:{port} ({error.strerror or error}). Choose another --port or --host."
        ) from None
    return made


def _who(kb: KnowledgeBase, settings: ServeSettings, groups: list[str]) -> str:
    from surefind.serve.auth.keys import Keys

    if settings.oidc is None and not Keys(kb.data).any():
        read = "every document" if "*" in groups else "public documents" + "".join(f" and those of {g}" for g in groups)
        return (
            f"Open to every user of this machine, who can read {read} and upload drafts. To know who calls, make an "
            "API key: surefind keys create NAME."
        )
    return "Callers need an API key (surefind keys)" + (" or a token." if settings.oidc else ".")
