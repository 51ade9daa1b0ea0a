"""Checks fusers."""

from __future__ import annotations

from collections.abc import Sequence

from surefind.base import spec
from surefind.base.abilities import declared
from surefind.base.protocols import Fuser
from surefind.base.types import Rankings
from surefind.testing._rule import rule
from surefind.testing.rankings import Row, check_rankings, rankings_of, same_row, scores_of

FUSER_ROWS: tuple[tuple[Row, Row], ...] = (
    (([3, 1, 2], [9.0, 4.0, 1.5]), ([2, 5, 3], [0.9, 0.8, 0.1])),
    (([0], [2.0]), ([0], [0.5])),
    (([0], [2.0]), ([7], [0.5])),
    (([], []), ([4, 2], [0.7, 0.6])),
    (([6, 8], [3.0, 1.0]), ([], [])),
    (([], []), ([], [])),
    (([1, 2, 3], [5.0, 5.0, 5.0]), ([2, 3, 4], [0.3, 0.3, 0.3])),
    (([4, 9], [-1.0, -7.0]), ([9, 4, 1], [-0.1, -0.2, -0.9])),
    (([1, 2], [1e30, 1e-30]), ([2, 1], [1e-30, 0.0])),
    (([1, 2], [0.0, 0.0]), ([2, 1], [0.0, 0.0])),
)
"""For each query, a row of a lexical and a row of a dense ranking: ties, negative scores, empty rows, extremes."""


def check_fuser(fuser: Fuser, rows: Sequence[tuple[Row, Row]] = FUSER_ROWS, k: int = 10) -> None:
    """Checks a fuser. Each item of `rows` is one query: its row of a lexical ranking and its row of a dense ranking."""
    whole = fuser.fuse(_pair(rows), k)
    check_rankings(whole, len(rows), k, _highest(rows) + 1)
    head = fuser.fuse(_pair(rows), 2)
    check_rankings(head, len(rows), 2, _highest(rows) + 1)
    for i, row in enumerate(rows):
        union = {*row[0][0], *row[1][0]}
        row_scores = scores_of(whole, i)
        rule(
            row_scores.keys() <= union,
            f"A fuser must not invent candidates: row {i} found {row_scores.keys() - union}.",
        )
        rule(bool(row_scores) == bool(union), f"A fuser must not lose every candidate: row {i}.")
        same_row(fuser.fuse(_pair([row]), k), 0, whole, i, "A batch of n must equal n batches of one")
        first = whole.row(i)[0][:2].tolist()
        rule(head.row(i)[0].tolist() == first, f"A smaller k must return the top of a larger k: row {i}.")
    rule(len(fuser.fuse(_pair([]), k)) == 0, "Fusing rankings without queries must return no rows.")
    other = declared(fuser).same_as([ranking.signal for ranking in _pair(rows)])
    if other is not None:
        twin = spec.make("fuse", other).fuse(_pair(rows), k)
        for i in range(len(rows)):
            same_row(whole, i, twin, i, f"{fuser} must rank like {other}, which it declares in same_as")


def _pair(rows: Sequence[tuple[Row, Row]]) -> list[Rankings]:
    lexical, dense = [row[0] for row in rows], [row[1] for row in rows]
    return [rankings_of(lexical), rankings_of(dense, "dense", "dense", -1.0)]


def _highest(rows: Sequence[tuple[Row, Row]]) -> int:
    return max((ordinal for row in rows for part in row for ordinal in part[0]), default=0)
