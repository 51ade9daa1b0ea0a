"""Splits an exam into two halves: one to tune on, one held out.

All questions about a document are in the same half. Otherwise a model could learn from one half where the answers of
the other half are, and the score on the held-out half would say nothing about documents that it has not seen.

Documents with many questions are placed first. Each goes to the half where it evens out the families. Let d(f) be the
held-out questions of family f minus its tuning questions, N(f) all of them, and n(f) those about the document. The
document is held out if Σ d(f) · n(f) / N(f)² < 0, which minimises Σ (d(f) / N(f))² step by step. If the sum is 0, the
totals decide. With fewer documents than the statistics need to count them (`measure.clusters`), each question is placed
on its own.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Sequence

from surefind.lab.exam.clusters import MIN_CLUSTERS, clusters_of
from surefind.lab.exam.model import ExamQuery


def held_out(queries: Sequence[ExamQuery]) -> list[bool]:
    """Whether each query is held out. The same exam is always split the same way, whatever the order of its queries."""
    out = [False] * len(queries)
    sizes = Counter(query.family for query in queries)
    ahead: Counter[str] = Counter()
    for members in _in_order(queries, _documents(queries)):
        families = Counter(queries[i].family for i in members)
        parts = [ahead[family] * count / sizes[family] ** 2 for family, count in families.items()]
        uneven = math.fsum(parts) or ahead.total()
        for i in members:
            out[i] = uneven < 0
            ahead[queries[i].family] += 1 if uneven < 0 else -1
    return out


def _documents(queries: Sequence[ExamQuery]) -> list[list[int]]:
    """The numbers of the queries about each document; of each query alone if there are few documents."""
    by_cluster: dict[int, list[int]] = defaultdict(list)
    for i, cluster in enumerate(clusters_of(queries).tolist()):
        by_cluster[cluster].append(i)
    return list(by_cluster.values()) if len(by_cluster) >= MIN_CLUSTERS else [[i] for i in range(len(queries))]


def _in_order(queries: Sequence[ExamQuery], documents: list[list[int]]) -> list[list[int]]:
    """Documents with many queries first. Among equals, the words of the queries decide."""
    return sorted(documents, key=lambda members: (-len(members), min(_lot(queries[i]) for i in members)))


def _lot(query: ExamQuery) -> bytes:
    return hashlib.blake2b(f"{query.id}\0{query.text}".encode(), digest_size=8).digest()
