"""Makes the backend that the settings of a knowledge base choose."""

from __future__ import annotations

from surefind.engine.store.backend import Backend
from surefind.engine.store.backends.local import LocalBackend
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.settings import StoreSettings


def backend_of(settings: StoreSettings, catalogue: Catalogue, isolated: bool = False, once: bool = False) -> Backend:
    """Makes the backend that the settings choose. Both kinds keep their tables in the same folder."""
    if settings.backend == "local":
        return LocalBackend(catalogue, isolated, once)
    from surefind.engine.store.backends.milvus.backend import MilvusBackend
    from surefind.engine.store.backends.milvus.server import server_of

    server = server_of(settings.uri, settings.token_env, catalogue.path.parent.parent)
    return MilvusBackend(catalogue, server, isolated, once)
