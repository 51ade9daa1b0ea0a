"""From the ranking of a run to what a search returns: passages with their text, their place and how they came there."""

from __future__ import annotations

from surefind.pipeline import Run
from surefind.snapshot import Snapshot
from surefind.types import Hit, Rankings, StageScore


def hits_of(run: Run, snapshot: Snapshot, k: int) -> tuple[Hit, ...]:
    """The k best passages of the run's one query, each with its place and score in every stage."""
    ordinals, scores = run.rankings.row(0)
    places = {name: _places(rankings) for name, rankings in run.stages}
    hits = []
    for rank, (ordinal, score) in enumerate(zip(ordinals[:k].tolist(), scores[:k].tolist(), strict=True), 1):
        chunk, title, metadata = snapshot.entry(ordinal, returned=True)
        stages = {name: found[ordinal] for name, found in places.items() if ordinal in found}
        matched = snapshot.matched(ordinal)
        hits.append(
            Hit(
                rank,
                score,
                chunk.document,
                chunk.id,
                title,
                chunk.headings,
                chunk.start,
                chunk.end,
                chunk.text,
                metadata,
                stages,
                snapshot.location(ordinal, *(matched or (chunk.start, chunk.end))),
                matched,
            )
        )
    return tuple(hits)


def _places(rankings: Rankings) -> dict[int, StageScore]:
    ordinals, scores = rankings.row(0)
    pairs = zip(ordinals.tolist(), scores.tolist(), strict=True)
    return {ordinal: StageScore(rank, score) for rank, (ordinal, score) in enumerate(pairs, 1)}
