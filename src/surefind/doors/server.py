"""Runs the server: says where it listens and who may call, answers, and stops without dropping a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from surefind.doors import listening
from surefind.doors.app import create_app
from surefind.doors.auth.first_key import LASTS, FirstKey
from surefind.doors.auth.keys import Keys
from surefind.doors.http.search_workers import SearchWorkers
from surefind.kb import KnowledgeBase
from surefind.kb.settings.serve import ServeSettings

_GRACE = 4
"""Seconds that running requests have after a signal to stop."""


def serve(kb: KnowledgeBase, settings: ServeSettings, groups: Iterable[str], say: Callable[[str], None]) -> None:
    """Serves until a signal comes. `say` gets the first lines, once the server answers."""
    keys = Keys(kb.data)
    first_key = FirstKey(keys)
    workers = SearchWorkers(kb.folder, settings.workers, settings.timeout) if settings.workers > 1 else None
    app = create_app(kb, settings, groups, first_key, workers)
    bound = listening.bind(settings.host, settings.port)

    def started() -> None:
        url = listening.url_of(bound)
        say(f"Serving {kb.folder} on {url}  (documentation: /docs)")
        if settings.oidc or keys.any():
            say("Callers need an API key (surefind keys)" + (" or a token." if settings.oidc else "."))
            return
        say(_open_to(sorted(groups)))
        say(f"To know who calls, make the first key. This link works once, for {LASTS // 3600} hours:")
        say(f"  {url}{first_key.link()}")

    listening.serve(app, bound, started, _GRACE)


def _open_to(groups: list[str]) -> str:
    """Says what callers of a server without keys may do."""
    read = "every document" if "*" in groups else "public documents" + "".join(f" and those of {g}" for g in groups)
    return f"Open to every user of this machine, who can read {read} and upload drafts."
