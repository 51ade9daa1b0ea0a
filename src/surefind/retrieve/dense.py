"""`dense(model=minilm)`: nearest neighbours of the query's vector by cosine similarity.

Exact up to 100,000 chunks; above that an inverted file with 8-bit codes (faiss IVF-SQ8).
Karpukhin et al., Dense Passage Retrieval, EMNLP 2020; Johnson et al., Billion-scale similarity search, 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from surefind import spec
from surefind.protocols import Embedder, Progress, Reuse
from surefind.spec import Stage
from surefind.types import Chunk, Signal

if TYPE_CHECKING:
    from surefind.retrieve._vectors import Vectors
    from surefind.services import Services


@dataclass(frozen=True)
class Dense(Stage):
    kind: ClassVar[str] = "retrieve"
    name: ClassVar[str] = "dense"
    signal: ClassVar[Signal] = "dense"

    model: str = "minilm"

    def __post_init__(self) -> None:
        spec.make("embed", self.model)

    @property
    def index_spec(self) -> str:
        """With the fingerprint of the weights: another release of the model needs other vectors."""
        return f"dense(model={self.model})@{cast(Embedder, spec.make('embed', self.model)).fingerprint}"

    def build(
        self,
        chunks: Sequence[Chunk],
        services: Services,
        reuse: Reuse | None = None,
        progress: Progress | None = None,
    ) -> Vectors:
        from surefind.retrieve._vectors import Vectors

        embedder = services.embedder(self.model)
        vectors = np.zeros((len(chunks), embedder.dimension), np.float32)
        new = np.arange(len(chunks))
        if reuse is not None:
            kept = reuse.origin >= 0
            vectors[kept] = cast("Vectors", reuse.index).vectors[reuse.origin[kept]]
            new = np.flatnonzero(~kept)
        if len(new):
            vectors[new] = embedder.embed([chunks[i].searchable for i in new.tolist()], progress)
        return Vectors.build(vectors, embedder)

    def load(self, folder: Path, services: Services) -> Vectors:
        from surefind.retrieve._vectors import Vectors

        return Vectors.load(folder, services.embedder(self.model))
