"""The index behind `sparse`: a BM25 index and a TF-IDF index over the same chunks, searched together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from surefind.base.disk.arrays import check_length
from surefind.base.types import BoolArray, FloatArray, IdArray, Mask, Query, Rankings
from surefind.engine.retrieve import _tfidf_kernels
from surefind.engine.retrieve._postings import Postings
from surefind.engine.retrieve._tfidf import Features, nothing


class SparseIndex:
    def __init__(self, postings: Postings, features: Features) -> None:
        check_length("The BM25 part", postings, len(features))
        self.postings = postings
        self.features = features

    def __len__(self) -> int:
        return len(self.features)

    def only(self, kept: BoolArray, retriever: Any) -> SparseIndex:
        """The index of the kept chunks alone, as if it had been built from them."""
        return SparseIndex(self.postings.only(kept, retriever), self.features.only(kept, retriever))

    def save(self, folder: Path) -> None:
        self.postings.save(folder)
        self.features.save(folder)

    def search(self, retriever: Any, queries: Sequence[Query], k: int, allow: Mask) -> Rankings:
        k = min(k, self.features.chunks)
        ordinals, scores = nothing((len(queries), k))
        if k and self.features.grams:
            parts = self._arguments(retriever, queries)
            _tfidf_kernels.search_both(
                *parts, retriever.weight, self.features.chunks, allow.kernel, k, ordinals, scores
            )
        return Rankings(ordinals.astype(np.int64), scores, "sparse", "sparse", 0.0)

    def score(self, retriever: Any, queries: Sequence[Query], ids: IdArray, allow: Mask) -> FloatArray:
        """The scores of given chunks, (queries, chunks). A chunk with none of the words scores 0, padding -inf."""
        _, scores = nothing(ids.shape)
        if self.features.grams:
            parts = self._arguments(retriever, queries)
            _tfidf_kernels.score_both(*parts, retriever.weight, self.features.chunks, ids.astype(np.int32), scores)
        return scores

    def _arguments(self, retriever: Any, queries: Sequence[Query]) -> tuple[Any, Any]:
        """The kernel arguments of the BM25 index and of the TF-IDF index for these queries."""
        return self.postings.arguments(retriever, queries), self.features.arguments(queries)
