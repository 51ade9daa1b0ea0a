"""Runs the server: says where it listens and who may call, answers, and stops without dropping a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from surefind.kb import KnowledgeBase
from surefind.serve import listening
from surefind.serve.http.app import create_app
from surefind.serve.http.settings import ServeSettings

_GRACE = 30
"""Seconds that running requests have after a signal to stop."""


def serve(kb: KnowledgeBase, settings: ServeSettings, groups: Iterable[str], say: Callable[[str], None]) -> None:
    """Serves until a signal comes. `say` gets the first lines, once the server answers."""
    app = create_app(kb, settings, groups)
    bound = listening.bind(settings.host, settings.port)

    def started() -> None:
        say(f"Serving {kb.folder} on {listening.url_of(bound)}  (documentation: /docs)")
        say(_who(kb, settings, sorted(groups)))

    listening.serve(app, bound, started, _GRACE)


def _who(kb: KnowledgeBase, settings: ServeSettings, groups: list[str]) -> str:
    from surefind.serve.auth.keys import Keys

    if settings.oidc is None and not Keys(kb.data).any():
        read = "every document" if "*" in groups else "public documents" + "".join(f" and those of {g}" for g in groups)
        return (
            f"Open to every user of this machine, who can read {read} and upload drafts. To know who calls, make an "
            "API key: surefind keys create NAME."
        )
    return "Callers need an API key (surefind keys)" + (" or a token." if settings.oidc else ".")
