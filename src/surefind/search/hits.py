"""From the ranking of a run to what a search returns: passages with their text, their place and how they came there."""

from __future__ import annotations

from surefind.access import Access
from surefind.search.pipeline import Run
from surefind.store.backend import View
from surefind.types import Hit, Rankings, StageScore


def hits_of(run: Run, view: View, access: Access, k: int, offset: int = 0) -> tuple[Hit, ...]:
    """The k passages after the first `offset` of the run's one query, each with its place and score in every stage."""
    ids, scores = (values[offset : offset + k].tolist() for values in run.rankings.row(0))
    places = {name: _places(rankings) for name, rankings in run.stages}
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
                {name: found[id] for name, found in places.items() if id in found},
                passage.location,
                passage.matched,
            )
        )
    return tuple(hits)


def _places(rankings: Rankings) -> dict[int, StageScore]:
    ids, scores = rankings.row(0)
    pairs = zip(ids.tolist(), scores.tolist(), strict=True)
    return {id: StageScore(rank, score) for rank, (id, score) in enumerate(pairs, 1)}
