"""`prefixed(model=onnx(path=…), query="query: ", passage="passage: ")`: questions and passages marked.

    v(question) = model(query + question)        v(passage) = model(passage + passage)

What e5, nomic-embed, bge and other models trained on marked texts expect; their cards say which marks. Wang et al.,
Text Embeddings by Weakly-Supervised Contrastive Pre-training, 2022.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

from surefind import spec
from surefind.protocols import Embedder, Progress
from surefind.spec import Stage
from surefind.types import FloatArray


@dataclass(frozen=True)
class Prefixed(Stage):
    kind: ClassVar[str] = "embed"
    name: ClassVar[str] = "prefixed"

    model: str = "minilm"
    query: str = "query: "
    passage: str = "passage: "

    def __post_init__(self) -> None:
        # However the encoder is written, it is the same encoder: its spec is brought into one form.
        object.__setattr__(self, "model", str(spec.make("embed", self.model)))

    @property
    def dimension(self) -> int:
        return self._encoder.dimension

    @property
    def fingerprint(self) -> str:
        """Of passages: what an index holds does not depend on how questions are marked."""
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
