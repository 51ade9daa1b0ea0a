"""Turns the ranking of a run into hits: passages with their text, their location and their rank in each stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from surefind.access import Access
from surefind.search.extent import Extent
from surefind.search.hooks import Run
from surefind.search.sentences import best_sentences
from surefind.store.backend import Passage, View
from surefind.types import Hit, Rankings, StageScore

PARENT = Extent()


def hits_of(
    query: str, run: Run, view: View, access: Access, k: int, offset: int = 0, extent: Extent = PARENT
) -> tuple[Hit, ...]:
    """Returns the k hits after the first `offset` of a run of one query, with their rank and score in every stage."""
    ids, scores = (values[offset : offset + k].tolist() for values in run.rankings.row(0))
    stages = [(name, _Ranks(rankings)) for name, rankings in run.stages]
    hits = []
    for rank, (chunk_id, score, passage) in enumerate(
        zip(ids, scores, view.passages(ids, access, extent.around), strict=True), offset + 1
    ):
        ranked = {name: there for name, ranks in stages if (there := ranks.of(chunk_id)) is not None}
        hits.append(_hit(rank, score, chunk_id, passage, ranked))
    return tuple(extent.cut(hit) for hit in with_sentences(query, hits))


def passage_hit(view: View, chunk_id: int, access: Access, extent: Extent, query: str = "") -> Hit:
    """Returns the passage with an id as a hit of rank 0, without scores."""
    (passage,) = view.passages([chunk_id], access, extent.around)
    (hit,) = with_sentences(query, [_hit(0, 0.0, chunk_id, passage, {})])
    return extent.cut(hit)


def with_sentences(query: str, hits: Sequence[Hit]) -> list[Hit]:
    """Adds the best sentence to each hit, from the part that was found."""
    spans = [hit.matched or (hit.start, hit.end) for hit in hits]
    texts = [hit.text[start - hit.start : end - hit.start] for hit, (start, end) in zip(hits, spans, strict=True)]
    sentences = best_sentences(query, texts)
    return [
        replace(hit, sentence=(start + sentence[0], start + sentence[1])) if sentence else hit
        for hit, (start, _), sentence in zip(hits, spans, sentences, strict=True)
    ]


def _hit(rank: int, score: float, chunk_id: int, passage: Passage, stages: dict[str, StageScore]) -> Hit:
    chunk = passage.chunk
    return Hit(
        rank,
        score,
        chunk.document,
        id_text(chunk_id),
        passage.title,
        chunk.headings,
        chunk.start,
        chunk.end,
        chunk.text,
        passage.metadata,
        stages,
        passage.location,
        passage.matched,
        None,
        passage.source,
        passage.path,
        passage.lines,
        passage.version,
    )


def id_text(chunk_id: int) -> str:
    """Returns the text form of a passage's id: 16 hexadecimal digits."""
    return f"{chunk_id:016x}"


class _Ranks:
    """The rank and score that a stage gave each of its candidates."""

    def __init__(self, rankings: Rankings) -> None:
        ids, self._scores = rankings.row(0)
        self._ranks = {chunk_id: rank for rank, chunk_id in enumerate(ids.tolist())}

    def of(self, chunk_id: int) -> StageScore | None:
        rank = self._ranks.get(chunk_id)
        return None if rank is None else StageScore(rank + 1, float(self._scores[rank]))
