"""`concat(models=[minilm, …])`: concatenates the vectors of several encoders.

    v(x) = [v_1(x), …, v_m(x)] / √m        so that        cos(v(x), v(y)) = mean_i cos(v_i(x), v_i(y))

Each part has unit length, so every encoder has the same weight; an encoder that is named twice has twice the weight.
The support-chatbot study found concatenation as good as reciprocal rank fusion of the encoders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self, cast

import numpy as np

from surefind.base import spec
from surefind.base.abilities import declared, embed_queries, query_fingerprint
from surefind.base.protocols import Embedder, Progress
from surefind.base.spec import Stage, require
from surefind.base.types import FloatArray


@dataclass(frozen=True)
class Concat(Stage):
    kind: ClassVar[str] = "embed"
    name: ClassVar[str] = "concat"

    models: tuple[str, ...] = ("minilm",)

    def __post_init__(self) -> None:
        require(len(self.models) > 0, self, "models must name at least one encoder")
        # Specs are written out in full, so that equal encoders have equal specs.
        object.__setattr__(self, "models", tuple(str(spec.make("embed", model)) for model in self.models))

    def placed(self, located: Callable[[str], Path]) -> Self:
        return self.replace(models=tuple(str(spec.make("embed", model).placed(located)) for model in self.models))

    @property
    def runs_here(self) -> bool:
        return all(declared(spec.make("embed", model)).runs_here for model in self.models)

    @property
    def dimension(self) -> int:
        return sum(part.dimension for part in self._parts())

    @property
    def fingerprint(self) -> str:
        return f"concat({' + '.join(part.fingerprint for part in self._parts())})"

    def embed(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        parts = self._parts()
        vectors = [part.embed(texts, _share_of(progress, i, len(parts))) for i, part in enumerate(parts)]
        return _joined(vectors)

    @property
    def query_fingerprint(self) -> str:
        return f"concat({' + '.join(map(query_fingerprint, self._parts()))})"

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        return _joined([embed_queries(part, texts) for part in self._parts()])

    def _parts(self) -> list[Embedder]:
        return [cast(Embedder, spec.make("embed", model)) for model in self.models]


def _joined(vectors: Sequence[FloatArray]) -> FloatArray:
    return np.hstack(vectors) / np.float32(np.sqrt(len(vectors)))


def _share_of(progress: Progress | None, i: int, parts: int) -> Progress | None:
    """Reports progress of the i-th of several equal parts as progress of the whole."""
    if progress is None:
        return None
    return lambda done, total: progress(i * total + done, parts * total)
