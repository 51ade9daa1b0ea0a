"""What stages may use besides their input: loaded encoders and their cache. Made once per knowledge base."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from surefind import spec
from surefind.embed._cache import CachedEmbedder, VectorCache
from surefind.protocols import Embedder


class Services:
    """Loads each encoder once. Passages always go through the cache; queries only if `cache_queries`
    (benchmarks ask the same questions again; a server's readers must not write)."""

    def __init__(self, cache_folder: Path | None = None, cache_queries: bool = False) -> None:
        self._cache = VectorCache(cache_folder / "embeddings.db") if cache_folder else None
        self._cache_queries = cache_queries
        self._embedders: dict[str, Embedder] = {}

    def embedder(self, model: str) -> Embedder:
        """For passages."""
        plain = self._plain(model)
        return CachedEmbedder(plain, self._cache) if self._cache else plain

    def query_embedder(self, model: str) -> Embedder:
        return self.embedder(model) if self._cache_queries else self._plain(model)

    def _plain(self, model: str) -> Embedder:
        if model not in self._embedders:
            self._embedders[model] = cast(Embedder, spec.make("embed", model))
        return self._embedders[model]

    def close(self) -> None:
        if self._cache:
            self._cache.close()
