"""A cross-encoder of the sentence-transformers library (needs torch), from a folder without an ONNX graph."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from surefind.base.errors import MissingPartError, SurefindError
from surefind.base.types import Chunk, Floats
from surefind.engine.embed.sentence_transformers import digest_of
from surefind.engine.inference.pairs import title_of


class TorchCrossEncoder:
    """Reads the beginning of each passage, up to `max_tokens` or the model's own limit."""

    spread: ClassVar[float] = 0.0
    """The usual range of scores is unknown for models from elsewhere."""

    def __init__(self, folder: Path, max_tokens: int | None = None) -> None:
        if find_spec("sentence_transformers") is None:
            raise MissingPartError(
                f"The cross-encoder in {folder} has no ONNX graph, so it needs the sentence-transformers library. "
                "Install it with pip install 'surefind[sentence-transformers]', or export the model to ONNX."
            )
        self._folder = folder
        self._max_tokens = max_tokens
        self._model: Any = None

    @property
    def identity(self) -> str:
        return f"{digest_of(self._folder)}:{self._max_tokens}:torch"

    def score(self, query: str, passages: Sequence[Chunk]) -> Floats:
        pairs = [(query, f"{title_of(chunk)}\n{chunk.text}".strip()) for chunk in passages]
        scores = np.asarray(self._load().predict(pairs, show_progress_bar=False), dtype=np.float64)
        if scores.shape != (len(passages),) or not np.isfinite(scores).all():
            raise SurefindError(
                f"The model in {self._folder} gives {scores.shape[1:] or 'no finite number'} for a passage; a "
                "reranker gives one number. Use a cross-encoder with one label."
            )
        return scores

    def _load(self) -> Any:
        if self._model is None:
            import torch
            from sentence_transformers import CrossEncoder

            options: dict[str, Any] = {"max_length": self._max_tokens} if self._max_tokens else {}
            try:
                self._model = CrossEncoder(
                    str(self._folder), activation_fn=torch.nn.Identity(), local_files_only=True, **options
                )
            except Exception as error:  # torch, transformers and safetensors raise errors of their own
                raise SurefindError(
                    f"The cross-encoder in {self._folder} cannot be loaded: {error} Check the folder."
                ) from error
        return self._model
