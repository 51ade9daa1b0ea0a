"""A vector index of several parts. Each part searches as it would alone, exactly or by its cells; scores are those of
the float32 vectors in either case, so that rankings of parts can be merged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from surefind.base.abilities import Part
from surefind.base.types import FloatArray, IdArray, Mask, Query, Rankings
from surefind.engine.retrieve._joined import Division
from surefind.engine.retrieve._vectors import Vectors


class JoinedVectors:
    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = [cast(Vectors, part.index) for part in parts]
        if len({part.vectors.shape[1] for part in self.parts}) > 1:
            raise ValueError("the parts have vectors of different lengths")
        self._division = Division([part.places for part in parts])

    def __len__(self) -> int:
        return self._division.count

    def save(self, folder: Path) -> None:
        """Writes nothing: the parts are saved already."""

    def warm(self) -> None:
        for part in self.parts:
            part.warm()

    def points(self, queries: Sequence[Query]) -> FloatArray:
        """The vectors of the queries."""
        return self.parts[0].points(queries)

    def search(self, retriever: Any, queries: Sequence[Query], k: int, allow: Mask) -> Rankings:
        """Embeds the queries and ranks by cosine similarity."""
        return self.nearest(self.points(queries), k, allow)

    def nearest(self, points: FloatArray, k: int, allow: Mask) -> Rankings:
        masks = self._division.masks(allow)
        rankings = [part.nearest(points, k, mask) for part, mask in zip(self.parts, masks, strict=True)]
        return self._division.merged(rankings, k)

    def near(self, ids: Sequence[int], k: int, allow: Mask) -> Rankings:
        """The chunks nearest to given chunks. Each chunk finds itself first, if it is allowed."""
        return self.nearest(self.rows(np.array(ids, np.int64)), k, allow)

    def score(self, retriever: Any, queries: Sequence[Query], ids: IdArray, allow: Mask) -> FloatArray:
        """The similarities of given chunks, (queries, chunks); padding scores -inf."""
        return self.similarity(self.points(queries), ids)

    def similarity(self, points: FloatArray, ids: IdArray) -> FloatArray:
        return self._division.scored(ids, lambda i, own: self.parts[i].similarity(points, own))

    def rows(self, places: IdArray) -> FloatArray:
        """The vectors of these places."""
        vectors = np.zeros((len(places), self.parts[0].vectors.shape[1]), np.float32)
        for i, there, local in self._division.located(places):
            vectors[there] = self.parts[i].rows(local[there])
        return vectors
