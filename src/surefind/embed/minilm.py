"""`minilm`: all-MiniLM-L6-v2 (384 dimensions, 256 tokens), int8 on onnxruntime, from the package surefind-models.

Reimers and Gurevych, Sentence-BERT, EMNLP 2019; Wang et al., MiniLM, NeurIPS 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from surefind.errors import MissingPartError
from surefind.inference.encoder import OnnxEncoder
from surefind.protocols import Progress
from surefind.spec import Stage
from surefind.types import FloatArray


@cache
def _encoder() -> OnnxEncoder:
    try:
        import surefind_models
    except ModuleNotFoundError:
        raise MissingPartError(
            "The bundled encoder is not installed. Install the package surefind-models "
            "(from a clone: pip install ./models), or search with --retrieve bm25."
        ) from None
    return OnnxEncoder(surefind_models.path("minilm"))


@dataclass(frozen=True)
class MiniLM(Stage):
    kind: ClassVar[str] = "embed"
    name: ClassVar[str] = "minilm"

    @property
    def dimension(self) -> int:
        return _encoder().dimension

    @property
    def fingerprint(self) -> str:
        return _encoder().fingerprint

    def embed(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        return _encoder().embed(texts, progress)
