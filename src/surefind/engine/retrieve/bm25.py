"""`bm25(k1=1.5, b=0.75, analyzer=auto)`: lexical retrieval.

    score(q, d) = Σ_t∈q  log(1 + (N - n_t + ½) / (n_t + ½)) · f(k1 + 1) / (f + k1 (1 - b + b·|d|/avg|d|))

Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009, with the non-negative
idf of Lucene. k1 and b are applied at search time, so trying other values needs no new index.

With the analyzer `auto`, each passage is stemmed in its language, and a question is searched in each language that it
may be in; the best score of a passage counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from surefind.base import spec
from surefind.base.abilities import Part, index_form
from surefind.base.protocols import Analyzer, Progress, Reuse, Services
from surefind.base.spec import Stage, require
from surefind.base.types import Chunk, Signal
from surefind.engine.analyze import VERSION
from surefind.engine.analyze.auto import Auto, marked
from surefind.engine.retrieve._counting import Texts

if TYPE_CHECKING:
    from surefind.engine.retrieve._counting import Merging
    from surefind.engine.retrieve._postings import JoinedPostings, Postings


@dataclass(frozen=True)
class BM25(Stage):
    kind: ClassVar[str] = "retrieve"
    name: ClassVar[str] = "bm25"
    signal: ClassVar[Signal] = "sparse"
    runs_here: ClassVar[bool] = True
    at_once: ClassVar[bool] = True

    k1: float = 1.5
    b: float = 0.75
    analyzer: str = "auto"

    def __post_init__(self) -> None:
        require(self.k1 >= 0, self, "k1 must be at least 0")
        require(0 <= self.b <= 1, self, "b must be from 0 to 1")
        spec.make("analyze", self.analyzer)

    def index_spec(self, services: Services) -> str:
        return f"bm25(analyzer={index_form(self._analyzer())})@{VERSION}"

    def build(
        self,
        chunks: Sequence[Chunk],
        services: Services,
        reuse: Reuse | None = None,
        progress: Progress | None = None,
    ) -> Postings:
        from surefind.engine.retrieve._postings import Postings

        earlier = cast("Merging", reuse.index) if reuse else None
        analyzer = self._analyzer()
        texts = Texts(chunks, _marked if isinstance(analyzer, Auto) else None)
        return Postings.build(texts, analyzer, earlier, reuse.origin if reuse else None, progress)

    def load(self, folder: Path, services: Services) -> Postings:
        from surefind.engine.retrieve._postings import Postings

        return Postings.load(folder, self._analyzer())

    def join(self, parts: Sequence[Part], services: Services, folder: Path | None = None) -> JoinedPostings:
        from surefind.engine.retrieve._postings import JoinedPostings

        return JoinedPostings(parts, folder)

    def _analyzer(self) -> Analyzer:
        return cast(Analyzer, spec.make("analyze", self.analyzer))


def _marked(chunk: Chunk) -> str:
    return marked(chunk.language, chunk.searchable)
