"""`tfidf(ngrams=2, features=50000, analyzer=english)`: cosine of TF-IDF vectors over n-grams of words.

    weight(g, d) = f(g, d) · (log((1 + N) / (1 + n_g)) + 1)        score(q, d) = cos(weight(·, q), weight(·, d))

over the n-grams g of 1 to `ngrams` terms. The `features` most frequent n-grams of the corpus are kept; of equally
frequent ones the shorter, then the first in alphabetical order. This is scikit-learn's `TfidfVectorizer(ngram_range=(1,
2), max_features=50000)`, except that scikit-learn chooses arbitrarily among equally frequent n-grams.

Salton and Buckley, Term-weighting approaches in automatic text retrieval, 1988; the cascade study's numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from surefind.base import spec
from surefind.base.abilities import index_form
from surefind.base.protocols import Analyzer, Progress, Reuse, Services
from surefind.base.spec import Stage, require
from surefind.base.types import Chunk, Signal
from surefind.engine.analyze import VERSION

if TYPE_CHECKING:
    from surefind.engine.retrieve._tfidf import Features


@dataclass(frozen=True)
class TfIdf(Stage):
    kind: ClassVar[str] = "retrieve"
    name: ClassVar[str] = "tfidf"
    signal: ClassVar[Signal] = "sparse"
    at_once: ClassVar[bool] = True

    ngrams: int = 2
    features: int = 50_000
    analyzer: str = "english"

    def __post_init__(self) -> None:
        require(self.ngrams >= 1, self, "ngrams must be at least 1")
        require(self.features >= 1, self, "features must be at least 1")
        spec.make("analyze", self.analyzer)

    def index_spec(self, services: Services) -> str:
        return (
            f"tfidf(ngrams={self.ngrams}, features={self.features}, analyzer={index_form(self._analyzer())})@{VERSION}"
        )

    def build(
        self,
        chunks: Sequence[Chunk],
        services: Services,
        reuse: Reuse | None = None,
        progress: Progress | None = None,
    ) -> Features:
        """Builds the index. One new chunk changes every weight, so an earlier index saves analysing, not counting."""
        from surefind.engine.retrieve._tfidf import Features

        texts = [chunk.searchable for chunk in chunks]
        earlier = cast("Features", reuse.index) if reuse else None
        origin = reuse.origin if reuse else None
        return Features.build(texts, self._analyzer(), self.ngrams, self.features, earlier, origin, progress)

    def load(self, folder: Path, services: Services) -> Features:
        from surefind.engine.retrieve._tfidf import Features

        return Features.load(folder, self._analyzer())

    def _analyzer(self) -> Analyzer:
        return cast(Analyzer, spec.make("analyze", self.analyzer))
