"""Turns the ranking of a run into hits: passages with their text, their location and their rank in each stage."""

from __future__ import annotations

from surefind.access import Access
from surefind.search.pipeline import Run
from surefind.store.backend import View
from surefind.types import Hit, Rankings, StageScore


def hits_of(run: Run, view: View, access: Access, k: int, offset: int = 0) -> tuple[Hit, ...]:
    """Returns the k hits after the first `offset` of a run of one query, with their rank and score in every stage."""
    ids, scores = (values[offset : offset + k].tolist() for values in run.rankings.row(0))
    stages = [(name, _Ranks(rankings)) for name, rankings in run.stages]
    hits = []
    for rank, (id, score, passage) in enumerate(zip(ids, scores, view.passages(ids, access), strict=True), offset + 1):
        chunk = passage.chunk
        hits.append(
            Hit(
                rank,
                score,
                chunk.document,
                chunk.id,
                passage.title,
                chunk.headings,
                chunk.start,
                chunk.end,
                chunk.text,
                passage.metadata,
                {name: there for name, ranks in stages if (there := ranks.of(id)) is not None},
                passage.location,
                passage.matched,
            )
        )
    return tuple(hits)


class _Ranks:
    """The rank and score that a stage gave each of its candidates."""

    def __init__(self, rankings: Rankings) -> None:
        ids, self._scores = rankings.row(0)
        self._ranks = {id: rank for rank, id in enumerate(ids.tolist())}

    def of(self, id: int) -> StageScore | None:
        rank = self._ranks.get(id)
        return None if rank is None else StageScore(rank + 1, float(self._scores[rank]))
