"""Splits an exam into two halves: one to tune on, one held out."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence

from surefind.exam.model import ExamQuery


def held_out(queries: Sequence[ExamQuery]) -> list[bool]:
    """Whether each query is held out: every second query of its family is, in an order that depends on the queries'
    words alone. So every family is in both halves, and the same exam is always split the same way. Families with one
    question are split together, as one family."""
    families: dict[str, list[int]] = defaultdict(list)
    for i, query in enumerate(queries):
        families[query.family].append(i)
    single = [members[0] for members in families.values() if len(members) == 1]
    out = [False] * len(queries)
    for members in (single, *(members for members in families.values() if len(members) > 1)):
        for turn, i in enumerate(sorted(members, key=lambda i: _lot(queries[i]))):
            out[i] = turn % 2 == 1
    return out


def _lot(query: ExamQuery) -> bytes:
    return hashlib.blake2b(f"{query.id}\0{query.text}".encode(), digest_size=8).digest()
