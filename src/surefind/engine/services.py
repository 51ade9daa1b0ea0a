"""Provides encoders, language models, prompts and caches to stages. Made once per knowledge base."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from surefind.base import spec
from surefind.base.prompts.prompt import Prompt, load_prompt
from surefind.base.prompts.values import Meter
from surefind.base.protocols import ChatModel, Embedder
from surefind.base.running import close_shared
from surefind.engine.llm.address import LLMSettings
from surefind.engine.llm.models import Models

if TYPE_CHECKING:
    from surefind.engine.store.vectors import CachedEmbedder, VectorCache


class LocalServices:
    """Loads each encoder and connects to each language model once. With a cache folder, results are cached."""

    def __init__(
        self,
        cache_folder: Path | None = None,
        models_folder: Path | None = None,
        llm: LLMSettings | None = None,
        prompts_folder: Path | None = None,
        folder: Path | None = None,
    ) -> None:
        self._cache = _cache(cache_folder, "embeddings.db")
        self.scores = _cache(cache_folder, "scores.db")
        """Scores of rerankers for pairs of texts, kept for benchmarks; None without a cache folder."""
        self.models_folder = models_folder
        """Folder of the models trained on this knowledge base."""
        self.prompts_folder = prompts_folder
        """Folder of the user's own prompts."""
        self._folder = folder
        self.llm = Models(llm, cache_folder)
        """The language models, their prices and the budget."""
        self._embedders: dict[Embedder, CachedEmbedder] = {}

    @property
    def meter(self) -> Meter:
        return self.llm.meter

    @property
    def replays(self) -> bool:
        return self.llm.replays

    def chat(self, model: str = "") -> ChatModel:
        """Returns a language model by its name (`openai:gpt-4.1-mini`); "" means the one chosen in surefind.toml."""
        return self.llm.chat(model)

    def chat_name(self, model: str | None) -> str:
        """The name of the language model that a stage uses: its own, or the one chosen in surefind.toml."""
        return model or self.llm.settings.model

    def prompt(self, name: str, version: str, slots: Sequence[str]) -> Prompt:
        """Returns the prompt of a step: the user's own of this name, or the built-in one."""
        return load_prompt(name, version, slots, self.prompts_folder)

    def located(self, path: str) -> Path:
        """Resolves a path in a spec or in the settings: in the folder of the knowledge base if it exists there, else as
        written."""
        plain = Path(path).expanduser()
        inside = self._folder / plain if self._folder else plain
        return inside if inside.exists() else plain

    def embedder(self, model: str) -> CachedEmbedder:
        from surefind.engine.store.vectors import CachedEmbedder

        encoder = cast(Embedder, spec.make("embed", model).placed(self.located))
        if encoder not in self._embedders:
            self._embedders[encoder] = CachedEmbedder(encoder, self._cache)
        return self._embedders[encoder]

    def keep_vectors(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        """Adds vectors that were computed elsewhere, as rows of the vector cache. Without a cache folder they are
        dropped."""
        if self._cache:
            self._cache.put(rows)

    def close(self) -> None:
        self.llm.close()
        close_shared()
        for cache in (self._cache, self.scores):
            if cache:
                cache.close()


def _cache(folder: Path | None, name: str) -> VectorCache | None:
    if folder is None:
        return None
    from surefind.engine.store.vectors import VectorCache  # needs numpy, which a process that only cuts texts does not

    return VectorCache(folder / name)
