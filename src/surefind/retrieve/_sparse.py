"""The index behind `sparse`: one of BM25 and one of TF-IDF over the same chunks, searched together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from surefind.retrieve import _tfidf_kernels
from surefind.retrieve._postings import Postings
from surefind.retrieve._tfidf import Features, nothing
from surefind.types import FloatArray, IdArray, Mask, Query, Rankings


class SparseIndex:
    def __init__(self, postings: Postings, features: Features) -> None:
        self.postings = postings
        self.features = features

    def __len__(self) -> int:
        return len(self.features)

    def save(self, folder: Path) -> None:
        self.postings.save(folder)
        self.features.save(folder)

    def search(self, retriever: Any, queries: Sequence[Query], k: int, allow: Mask) -> Rankings:
        k = min(k, self.features.chunks)
        ordinals, scores = nothing((len(queries), k))
        if k and self.features.grams:
            asked = self._asked(retriever, queries)
            _tfidf_kernels.search_both(
                *asked, retriever.weight, self.features.chunks, allow.kernel, k, ordinals, scores
            )
        return Rankings(ordinals.astype(np.int64), scores, "sparse", "sparse", 0.0)

    def score(self, retriever: Any, queries: Sequence[Query], ids: IdArray, allow: Mask) -> FloatArray:
        """The score of given chunks, (queries, chunks); a chunk without any of the words has 0, padding -inf."""
        _, scores = nothing(ids.shape)
        if self.features.grams:
            asked = self._asked(retriever, queries)
            _tfidf_kernels.score_both(*asked, retriever.weight, self.features.chunks, ids.astype(np.int32), scores)
        return scores

    def _asked(self, retriever: Any, queries: Sequence[Query]) -> tuple[Any, Any]:
        """For the kernels: what the queries ask of each of the two."""
        return self.postings.asked(retriever, queries), self.features.asked(queries)
