"""`dense(model=minilm)`: nearest neighbours of the query's vector by cosine similarity.

The search is exact up to 100,000 chunks; above that it uses an inverted file with 8-bit codes (faiss IVF-SQ8).
Karpukhin et al., Dense Passage Retrieval, EMNLP 2020; Johnson et al., Billion-scale similarity search, 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from surefind import spec
from surefind.abilities import name_of
from surefind.protocols import Embedder, Progress, Reuse
from surefind.spec import Stage
from surefind.types import Chunk, Signal

if TYPE_CHECKING:
    from surefind.protocols import Services
    from surefind.retrieve._vectors import Vectors


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
        """Names the encoder and its fingerprint, not its parameters: new weights need new vectors, a new price or batch
        size does not."""
        encoder = cast(Embedder, spec.make("embed", self.model))
        return f"dense(model={name_of(encoder)})@{encoder.fingerprint}"

    def build(
        self,
        chunks: Sequence[Chunk],
        services: Services,
        reuse: Reuse | None = None,
        progress: Progress | None = None,
    ) -> Vectors:
        from surefind.retrieve._vectors import Vectors

        embedder = services.embedder(self.model)
        origin = np.full(len(chunks), -1, np.int32) if reuse is None else reuse.origin
        new = np.flatnonzero(origin < 0)
        if not len(new) and reuse is not None and len(chunks):  # so the encoder is not loaded at all
            return Vectors.build(cast("Vectors", reuse.index).vectors[origin], embedder)
        embedded = embedder.embed([chunks[i].searchable for i in new.tolist()], progress)
        vectors = np.zeros((len(chunks), embedded.shape[1]), np.float32)
        vectors[new] = embedded
        if reuse is not None:
            vectors[origin >= 0] = cast("Vectors", reuse.index).vectors[origin[origin >= 0]]
        return Vectors.build(vectors, embedder)

    def load(self, folder: Path, services: Services) -> Vectors:
        from surefind.retrieve._vectors import Vectors

        return Vectors.load(folder, services.embedder(self.model))
