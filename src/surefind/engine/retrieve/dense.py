"""`dense(model=minilm)`: nearest neighbours of the query's vector by cosine similarity.

The search is exact up to 100,000 chunks; above that it uses an inverted file with 8-bit codes (IVF-SQ8).
`within=[en]` searches only for questions in English, or in a language that is not sure; `beyond=[en]` only for those
that are surely in another language. Other questions get no passage and no score, so a fusion by weights keeps the order
that it has without.
Karpukhin et al., Dense Passage Retrieval, EMNLP 2020; Johnson et al., Billion-scale similarity search, 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from surefind.base import spec
from surefind.base.abilities import Part, declared, name_of
from surefind.base.protocols import Progress, Reuse, Services
from surefind.base.spec import Stage, require
from surefind.base.text.languages import code_of, language_of
from surefind.base.types import Chunk, FloatArray, Query, Signal
from surefind.engine.retrieve._counting import Texts

if TYPE_CHECKING:
    from surefind.engine.retrieve._vectors import JoinedVectors, Vectors


_BATCH = 8_192
"""The chunks whose texts are in memory at a time."""


@dataclass(frozen=True)
class Dense(Stage):
    kind: ClassVar[str] = "retrieve"
    name: ClassVar[str] = "dense"
    signal: ClassVar[Signal] = "dense"

    model: str = "minilm"
    within: tuple[str, ...] | None = None
    """The languages of the questions to search for; none means all."""
    beyond: tuple[str, ...] | None = None
    """The languages of the questions not to search for."""

    def __post_init__(self) -> None:
        spec.make("embed", self.model)
        for language in (*(self.within or ()), *(self.beyond or ())):
            require(code_of(language) == language, self, f"{language!r} is no language; write its code, such as de")

    def asked(self, queries: Sequence[Query]) -> list[int] | None:
        """Returns which of the queries to search for; None for all."""
        if not self.within and not self.beyond:
            return None
        spoken = [language_of(query.text) for query in queries]
        return [
            i
            for i, language in enumerate(spoken)
            if (not self.within or language in ("", *self.within))
            and (not self.beyond or language not in ("", *self.beyond))
        ]

    @property
    def runs_here(self) -> bool:
        return declared(spec.make("embed", self.model)).runs_here

    def index_spec(self, services: Services) -> str:
        """Names the encoder and its fingerprint, not its parameters: new weights need new vectors, a new price or batch
        size does not."""
        name = name_of(spec.make("embed", self.model))
        return f"dense(model={name})@{services.embedder(self.model).fingerprint}"

    def build(
        self,
        chunks: Sequence[Chunk],
        services: Services,
        reuse: Reuse | None = None,
        progress: Progress | None = None,
    ) -> Vectors:
        from surefind.engine.retrieve._vectors import Vectors

        embedder = services.embedder(self.model)
        origin = np.full(len(chunks), -1, np.int32) if reuse is None else reuse.origin
        texts, new, kept = Texts(chunks), np.flatnonzero(origin < 0), np.flatnonzero(origin >= 0)
        made: FloatArray | None = None
        for at in range(0, len(new), _BATCH):  # the encoder is not loaded at all if nothing is new
            some = new[at : at + _BATCH]
            embedded = embedder.embed([texts[i] for i in some.tolist()], _from(at, len(new), progress))
            made = np.zeros((len(chunks), embedded.shape[1]), np.float32) if made is None else made
            made[some] = embedded
        for at in range(0, len(kept) if reuse else 0, _BATCH):
            some = kept[at : at + _BATCH]
            copied = cast("Vectors", cast(Reuse, reuse).index).rows(origin[some].astype(np.int64))
            made = np.zeros((len(chunks), copied.shape[1]), np.float32) if made is None else made
            made[some] = copied
        return Vectors.build(embedder.embed([]) if made is None else made, embedder)

    def lacking(self, chunks: Sequence[Chunk], services: Services) -> int:
        return services.embedder(self.model).lacking(Texts(chunks))

    def prepare(self, chunks: Sequence[Chunk], services: Services, progress: Progress) -> None:
        texts, embedder = Texts(chunks), services.embedder(self.model)
        for at in range(0, len(texts), _BATCH):
            embedder.embed(texts[at : at + _BATCH], _from(at, len(texts), progress))

    def load(self, folder: Path, services: Services) -> Vectors:
        from surefind.engine.retrieve._vectors import Vectors

        return Vectors.load(folder, services.embedder(self.model))

    def join(self, parts: Sequence[Part], services: Services, folder: Path | None = None) -> JoinedVectors:
        from surefind.engine.retrieve._vectors import JoinedVectors

        return JoinedVectors(parts)


def _from(start: int, total: int, progress: Progress | None) -> Progress | None:
    """Turns the progress of one batch into that of the whole."""
    return (lambda done, _: progress(start + done, total)) if progress else None
