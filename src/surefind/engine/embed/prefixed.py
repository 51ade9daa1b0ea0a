"""`prefixed(model=onnx(path=…), query="query: ", passage="passage: ")`: puts prefixes before texts.

    v(question) = model(query prefix + question)        v(passage) = model(passage prefix + passage)

For e5, nomic-embed, bge and other models trained on texts with prefixes; their model cards say which. Wang et al., Text
Embeddings by Weakly-Supervised Contrastive Pre-training, 2022.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self, cast

from surefind.base import spec
from surefind.base.abilities import declared
from surefind.base.protocols import Embedder, Progress
from surefind.base.spec import Stage
from surefind.base.types import FloatArray


@dataclass(frozen=True)
class Prefixed(Stage):
    kind: ClassVar[str] = "embed"
    name: ClassVar[str] = "prefixed"

    model: str = "minilm"
    query: str = "query: "
    passage: str = "passage: "

    def __post_init__(self) -> None:
        # The spec is written out in full, so that equal encoders have equal specs.
        object.__setattr__(self, "model", str(spec.make("embed", self.model)))

    def placed(self, located: Callable[[str], Path]) -> Self:
        return self.replace(model=str(spec.make("embed", self.model).placed(located)))

    @property
    def runs_here(self) -> bool:
        return declared(spec.make("embed", self.model)).runs_here

    @property
    def dimension(self) -> int:
        return self._encoder.dimension

    @property
    def fingerprint(self) -> str:
        """Identifies the vectors of passages: an index does not depend on the prefix of questions."""
        return f"prefixed({self._encoder.fingerprint}, {self.passage!r})"

    @property
    def query_fingerprint(self) -> str:
        return f"prefixed({self._encoder.fingerprint}, {self.query!r})"

    def embed(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        return self._encoder.embed([self.passage + text for text in texts], progress)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        return self._encoder.embed([self.query + text for text in texts])

    @property
    def _encoder(self) -> Embedder:
        return cast(Embedder, spec.make("embed", self.model))
