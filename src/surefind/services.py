"""What stages may use besides their input: loaded encoders and their cache. Made once per knowledge base."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from surefind import spec
from surefind.embed._cache import CachedEmbedder, VectorCache
from surefind.protocols import Embedder


class Services:
    """Loads each encoder once, behind the cache where there is one."""

    def __init__(self, cache_folder: Path | None = None, models_folder: Path | None = None) -> None:
        self._cache = VectorCache(cache_folder / "embeddings.db") if cache_folder else None
        self.scores = VectorCache(cache_folder / "scores.db") if cache_folder else None
        """What rerankers gave pairs of texts, kept for benchmarks."""
        self.models_folder = models_folder
        """Where models trained on this knowledge base are kept."""
        self._embedders: dict[str, CachedEmbedder] = {}

    def embedder(self, model: str) -> CachedEmbedder:
        if model not in self._embedders:
            self._embedders[model] = CachedEmbedder(cast(Embedder, spec.make("embed", model)), self._cache)
        return self._embedders[model]

    def close(self) -> None:
        for cache in (self._cache, self.scores):
            if cache:
                cache.close()
