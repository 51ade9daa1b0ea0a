"""`entity_overlap(window=50, least=2, damping=0.85, extract=regex)`: ranks by shared entities and centrality.

    score(q, d) = |E(q) ∩ E(d)| · (1 + PR(d))        w(d_i, d_j) = |E(d_i) ∩ E(d_j)| ≥ least, i < j ≤ i + window

The graph modality of the cascade study. Passages are nodes; an edge joins two passages that share at least two entities
and are at most 50 places apart in the collection. PR is PageRank over these edges with damping .85. All edges count the
same, as in the study's formula, and a walker at a passage without edges restarts anywhere. The study uses the window to
limit its cost, but it makes the edges depend on the order of files. `window=0` compares every pair instead, and ignores
entities in more than 5% of the passages, because an entity that occurs everywhere would join everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from surefind.base import spec
from surefind.base.protocols import Extractor, Progress, Reuse, Services
from surefind.base.spec import Stage, require
from surefind.base.types import Chunk, Signal

if TYPE_CHECKING:
    from surefind.engine.retrieve._overlap import Overlap


_FORMAT = 3
"""Version of the index. Increase it when the same text gives different entities."""


@dataclass(frozen=True)
class EntityOverlap(Stage):
    kind: ClassVar[str] = "retrieve"
    name: ClassVar[str] = "entity_overlap"
    signal: ClassVar[Signal] = "graph"

    window: int = 50
    least: int = 2
    damping: float = 0.85
    extract: str = "regex"

    def __post_init__(self) -> None:
        require(self.window >= 0, self, "window must be at least 0")
        require(self.least >= 1, self, "least must be at least 1")
        require(0 <= self.damping < 1, self, "damping must be at least 0 and below 1")
        self._extractor()

    def index_spec(self, services: Services) -> str:
        return f"entity_overlap(extract={self._extractor()})@{_FORMAT}"

    def build(
        self,
        chunks: Sequence[Chunk],
        services: Services,
        reuse: Reuse | None = None,
        progress: Progress | None = None,
    ) -> Overlap:
        from surefind.engine.retrieve._overlap import Overlap

        earlier = cast("Overlap", reuse.index) if reuse else None
        return Overlap.build(chunks, self._extractor(), services, earlier, reuse.origin if reuse else None, progress)

    def load(self, folder: Path, services: Services) -> Overlap:
        from surefind.engine.retrieve._overlap import Overlap

        return Overlap.load(folder, self._extractor(), services)

    def _extractor(self) -> Extractor:
        return cast(Extractor, spec.make("extract", self.extract))
