"""`cross_encoder(model=small, top=20, keep=10, blend=0.5)`: a model that reads query and passage together.

    score = (1 - blend) · minmax(score before) + blend · minmax(logit of [CLS] over query and passage)

The model reads the first `top` passages of the previous stage. The best `keep` of them by this score take the first
places; everything else follows in its previous order. A passage is read with its title, and through its best window if
it is too long (`surefind.engine.inference.cross_encoder`). With `max_ms` the model reads, in order, as many passages as
it can begin in time, and the trace says how many.

Nogueira and Cho, Passage Re-ranking with BERT, 2019. The cascade study reads 100 and keeps 10, without blending, and up
to 512 tokens of query and passage: `cross_encoder(top=100, keep=10, blend=1.0, max_tokens=512)`.

A cross-encoder of the sentence-transformers library (needs torch), from a folder without an ONNX graph.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from surefind.base.errors import MissingPartError, SurefindError
from surefind.base.protocols import Passages, Services
from surefind.base.running import note
from surefind.base.spec import Stage, require
from surefind.base.types import Chunk, Floats, Query, Rankings
from surefind.engine.embed.sentence_transformers import digest_of
from surefind.engine.inference.cross_encoder import OnnxCrossEncoder, title_of
from surefind.engine.inference.folder import graph_version, questions_trained_on
from surefind.engine.rerank._rescore import Blend, cached_scorer
from surefind.engine.store.database import FileVersion


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


BUNDLED = {"small": "reranker", "large": "careful"}
"""The folders of the bundled models. `large` has twelve layers: it reads better and takes twice as long."""
_FORMER = {"bundled": "small", "careful": "large"}
"""Earlier names of the bundled models. They work until 0.2."""
_LOG = logging.getLogger("surefind")


@dataclass(frozen=True)
class CrossEncoder(Stage):
    kind: ClassVar[str] = "rerank"
    name: ClassVar[str] = "cross_encoder"
    runs_here: ClassVar[bool] = True
    """It costs time but no money, so a benchmark may try it to estimate how long it will take."""

    model: str = "small"
    """`small`, `large`, the name of a model that `surefind train reranker` made, or the folder of a cross-encoder,
    with an ONNX graph or in the form of the sentence-transformers library."""
    top: int = 20
    keep: int = 10
    blend: float = 0.5
    max_ms: float | None = None
    max_tokens: int | None = None
    """Tokens of query and passage that the model reads; None means the value in the model's folder, or 256."""
    spread: float | None = None
    """The usual range of the model's scores, so that small differences stay small; None means the value in the model's
    folder, or 0."""
    second: float | None = None
    """The weight of a second reading, in which the best passage stands beside the question: for questions that two
    passages answer together. None means that the model reads once."""

    def __post_init__(self) -> None:
        if self.model in _FORMER:
            _say_new_name(self.model)
            object.__setattr__(self, "model", _FORMER[self.model])
        Blend.of(self, self.top, self.keep, self.blend, self.spread or 0.0, self.second or 0.0)
        require(not (self.second and self.max_ms), self, "second cannot be used with max_ms")
        require(bool(self.model), self, "model must be named")
        require(self.max_ms is None or self.max_ms > 0, self, "max_ms must be above 0")
        require(self.max_tokens is None or 16 <= self.max_tokens <= 8192, self, "max_tokens must be from 16 to 8192")

    @property
    def work(self) -> str:
        """The part of the spec that decides how long it takes: stages that differ only in blending share the scores."""
        return str(self.replace(blend=0.5, keep=1, spread=None))

    def stamp(self, services: Services) -> str:
        """Changes with the model's weights and spread, which the spec only names."""
        model = self._model(services)
        return f"{model.identity}:{model.spread:g}"

    def training_questions(self, services: Services) -> frozenset[str]:
        """Keys of the questions that the model was trained on, if `surefind train reranker` made it."""
        return questions_trained_on(_folder(self.model, services))

    def rerank(
        self, queries: Sequence[Query], rankings: Rankings, passages: Passages, k: int, services: Services
    ) -> Rankings:
        model = self._model(services)
        if self.max_ms is not None:
            scorer = lambda query, passages_read: self._in_time(model, query, passages_read)  # noqa: E731
        else:
            scorer = cached_scorer(model, services) if len(queries) > 1 else model.score
        spread = model.spread if self.spread is None else self.spread
        blend = Blend(self.top, self.keep, self.blend, spread, self.second or 0.0)
        return blend.rerank(queries, rankings, passages, k, self.name, scorer)

    def _in_time(self, model: OnnxCrossEncoder | TorchCrossEncoder, query: str, passages: Sequence[Chunk]) -> Floats:
        if not isinstance(model, OnnxCrossEncoder):
            return model.score(query, passages)
        scores = model.score(query, passages, self.max_ms)
        if len(scores) < len(passages):
            note(f"read {len(scores)} of {len(passages)} passages in {self.max_ms:g} ms; the others keep their places")
        return scores

    def _model(self, services: Services) -> OnnxCrossEncoder | TorchCrossEncoder:
        folder = _folder(self.model, services)
        return _open(folder, self.max_tokens, graph_version(folder))


@cache
def _say_new_name(model: str) -> None:
    _LOG.warning("cross_encoder(model=%s) is now called cross_encoder(model=%s).", model, _FORMER[model])


def _folder(model: str, services: Services) -> Path:
    if model in BUNDLED:
        return bundled(model)
    mine = services.models_folder / model if services.models_folder else None
    if mine and "/" not in model and mine.is_dir():
        return mine
    folder = services.located(model)
    if not folder.is_dir():
        raise MissingPartError(
            f"There is no cross-encoder {model!r}: neither a folder nor a model that surefind train reranker made. "
            f"Give the path of a folder with model.onnx and tokenizer.json, or choose one of: {', '.join(BUNDLED)}."
        )
    return folder.resolve()


def bundled(model: str = "small") -> Path:
    try:
        import surefind_models

        return Path(surefind_models.path(BUNDLED[model]))
    except (ModuleNotFoundError, ValueError):
        raise MissingPartError(
            f"The reranker {model} is not installed. Install the package surefind-models (from a clone: pip install "
            "./models), or name the folder of a cross-encoder: cross_encoder(model=FOLDER)."
        ) from None
    except OSError as error:
        raise MissingPartError(f"The reranker {model} cannot be read ({error.strerror}: {error.filename}).") from None


def bundled_reader(max_tokens: int, model: str = "small") -> OnnxCrossEncoder:
    """A bundled cross-encoder. Raises `MissingPartError` if it is not installed."""
    folder = bundled(model)
    reader = _open(folder, max_tokens, graph_version(folder))
    assert isinstance(reader, OnnxCrossEncoder)
    return reader


@lru_cache(maxsize=8)
def _open(folder: Path, max_tokens: int | None, version: FileVersion | None) -> OnnxCrossEncoder | TorchCrossEncoder:
    """`version` is a cache key, so that a retrained model is opened again; it is None for a folder without a graph."""
    return OnnxCrossEncoder(folder, max_tokens) if version else TorchCrossEncoder(folder, max_tokens)
