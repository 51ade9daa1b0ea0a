"""Numbers the questions of an exam by their gold document, since questions about one document are not independent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from surefind.lab.exam.model import ExamQuery

MIN_CLUSTERS = 10
"""Clusters that can be resampled or divided; with fewer, each question counts on its own."""


def clusters_of(queries: Sequence[ExamQuery]) -> NDArray[np.int64]:
    """A number for each query; queries with the same gold document have the same number.

    The gold document is the first judged document with the highest grade; documents with the answer come before
    supporting ones. A query without a relevant document gets a number of its own.
    """
    numbers: dict[tuple[str, int], int] = {}
    keys = [(document, -1) if (document := _gold(query)) is not None else ("", i) for i, query in enumerate(queries)]
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def _gold(query: ExamQuery) -> str | None:
    best = max(query.judgments, key=lambda judgment: (judgment.is_answer, judgment.grade), default=None)
    return best.document if best is not None and best.grade > 0 else None
