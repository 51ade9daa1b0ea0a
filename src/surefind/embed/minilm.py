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
def bundled(name: str) -> OnnxEncoder:
    try:
        import surefind_models

        return OnnxEncoder(surefind_models.path(name))
    except (ModuleNotFoundError, ValueError):
        raise MissingPartError(
            f"The bundled encoder {name} is not installed. Install the package surefind-models "
            "(from a clone: pip install ./models), or search with --retrieve bm25."
        ) from None


@dataclass(frozen=True)
class MiniLM(Stage):
    kind: ClassVar[str] = "embed"
    name: ClassVar[str] = "minilm"

    @property
    def dimension(self) -> int:
        return bundled("minilm").dimension

    @property
    def fingerprint(self) -> str:
        return bundled("minilm").fingerprint

    def embed(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        return bundled("minilm").embed(texts, progress)
