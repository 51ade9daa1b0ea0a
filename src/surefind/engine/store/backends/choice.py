"""Makes the backend that the settings of a knowledge base choose.

The table [store] of surefind.toml: which backend a knowledge base uses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from surefind.base.errors import UsageError
from surefind.engine.store.backend import Backend
from surefind.engine.store.backends.local import LocalBackend
from surefind.engine.store.catalogue import Catalogue

BACKENDS = ("local", "milvus")


@dataclass(frozen=True)
class StoreSettings:
    backend: str = "local"
    uri: str = ".surefind/milvus.db"
    """The address of a Milvus server, or the path of a milvus-lite folder."""
    token_env: str = ""
    """The environment variable with the token of the server."""

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """The backend and its address, unless it is the local one: for keys of results that depend on it."""
        return () if self.backend == "local" else (self.backend, self.uri)

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise UsageError(f"backend must be one of {', '.join(BACKENDS)}, not {self.backend!r}.")
        if "://" not in self.uri and not self.uri.endswith(".db"):
            raise UsageError(
                "uri must be a path that ends in .db (milvus-lite), or an address like http://localhost:19530, not "
                f"{self.uri!r}."
            )
        if "://" in self.uri and not self.uri.startswith(("http://", "https://")):
            raise UsageError(f"uri must begin with http:// or https://, not {self.uri!r}.")
        if not re.fullmatch(r"([A-Z_][A-Z0-9_]*)?", self.token_env):  # the message does not repeat what may be a token
            raise UsageError(
                "token_env must be the name of an environment variable in capitals (such as SUREFIND_MILVUS_TOKEN), "
                "not the token."
            )


def backend_of(settings: StoreSettings, catalogue: Catalogue, isolated: bool = False, once: bool = False) -> Backend:
    """Makes the backend that the settings choose. Both kinds keep their tables in the same folder."""
    if settings.backend == "local":
        return LocalBackend(catalogue, isolated, once)
    from surefind.engine.store.backends.milvus.backend import MilvusBackend
    from surefind.engine.store.backends.milvus.server import server_of

    server = server_of(settings.uri, settings.token_env, catalogue.path.parent.parent)
    return MilvusBackend(catalogue, server, isolated, once)
