"""`sparse(weight=0.5)`: BM25 and TF-IDF averaged, the sparse modality of the cascade study.

    score(q, d) = weight · norm(bm25(q, d)) + (1 - weight) · norm(tfidf(q, d))        norm(s) = s / max_j s(q, d_j)

The study normalises "both scores to [0, 1] separately", and states min-max over the whole corpus only for its dense
scores. We apply the same here: the highest score is taken over all chunks, not over a list of candidates, so neither k
nor the caller changes a score. The lowest is 0, the score of a chunk that shares no word with the query. If every chunk
shares a word, min-max would set the worst chunk to 0, as if it were not found; here it keeps its score. The parameters
are those of `bm25` and `tfidf`; all but the last three can change at search time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from surefind.base.protocols import Progress, Reuse, Services
from surefind.base.spec import Stage, require
from surefind.base.types import Chunk, Signal
from surefind.engine.retrieve.bm25 import BM25
from surefind.engine.retrieve.tfidf import TfIdf

if TYPE_CHECKING:
    from surefind.engine.retrieve._tfidf import SparseIndex


@dataclass(frozen=True)
class Sparse(Stage):
    kind: ClassVar[str] = "retrieve"
    name: ClassVar[str] = "sparse"
    signal: ClassVar[Signal] = "sparse"

    weight: float = 0.5
    """Weight of BM25; TF-IDF gets the rest."""
    k1: float = 1.5
    b: float = 0.75
    ngrams: int = 2
    features: int = 50_000
    analyzer: str = "english"

    def __post_init__(self) -> None:
        require(0 <= self.weight <= 1, self, "weight must be from 0 to 1")
        self._parts()

    def index_spec(self, services: Services) -> str:
        bm25, tfidf = self._parts()
        return f"sparse({bm25.index_spec(services)} + {tfidf.index_spec(services)})"

    def build(
        self,
        chunks: Sequence[Chunk],
        services: Services,
        reuse: Reuse | None = None,
        progress: Progress | None = None,
    ) -> SparseIndex:
        from surefind.engine.retrieve._tfidf import SparseIndex

        bm25, tfidf = self._parts()
        earlier = cast("SparseIndex", reuse.index) if reuse else None
        words = Reuse(earlier.postings, reuse.origin) if reuse and earlier else None
        grams = Reuse(earlier.features, reuse.origin) if reuse and earlier else None
        return SparseIndex(bm25.build(chunks, services, words), tfidf.build(chunks, services, grams, progress))

    def load(self, folder: Path, services: Services) -> SparseIndex:
        from surefind.engine.retrieve._tfidf import SparseIndex

        bm25, tfidf = self._parts()
        return SparseIndex(bm25.load(folder, services), tfidf.load(folder, services))

    def _parts(self) -> tuple[BM25, TfIdf]:
        return BM25(self.k1, self.b, self.analyzer), TfIdf(self.ngrams, self.features, self.analyzer)
