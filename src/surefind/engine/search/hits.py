"""Turns the ranking of a run into hits: passages with their text, their location and their rank in each stage."""

from __future__ import annotations

from collections.abc import Sequence

from surefind.base.access import Access
from surefind.base.types import Hit, Rankings, StageScore
from surefind.engine.search.extent import Extent
from surefind.engine.search.hooks import Run
from surefind.engine.search.sentences import best_sentences
from surefind.engine.store.backend import Passage, View

PARENT = Extent()


def hits_of(
    query: str, run: Run, view: View, access: Access, k: int, offset: int = 0, extent: Extent = PARENT
) -> tuple[Hit, ...]:
    """Returns the k hits after the first `offset` of a run of one query, with their rank and score in every stage."""
    ids, scores = (values[offset : offset + k].tolist() for values in run.rankings.row(0))
    stages = [(name, _Ranks(rankings)) for name, rankings in run.stages]
    passages = view.passages(ids, access, extent.around)
    hits = []
    for rank, (chunk_id, score, passage, sentence) in enumerate(
        zip(ids, scores, passages, _sentences(query, passages), strict=True), offset + 1
    ):
        ranked = {name: there for name, ranks in stages if (there := ranks.of(chunk_id)) is not None}
        hits.append(extent.cut(_hit(rank, score, chunk_id, passage, ranked, sentence)))
    return tuple(hits)


def passage_hit(view: View, chunk_id: int, access: Access, extent: Extent, query: str = "") -> Hit:
    """Returns the passage with an id as a hit of rank 0, without scores."""
    (passage,) = view.passages([chunk_id], access, extent.around)
    return extent.cut(_hit(0, 0.0, chunk_id, passage, {}, *_sentences(query, [passage])))


def _sentences(query: str, passages: Sequence[Passage]) -> list[tuple[int, int] | None]:
    """Returns the span of the best sentence of each passage, from the part that was found."""
    spans = [passage.matched or (passage.chunk.start, passage.chunk.end) for passage in passages]
    texts = [
        passage.chunk.text[start - passage.chunk.start : end - passage.chunk.start]
        for passage, (start, end) in zip(passages, spans, strict=True)
    ]
    sentences = best_sentences(query, texts)
    return [best and (start + best[0], start + best[1]) for (start, _), best in zip(spans, sentences, strict=True)]


def _hit(
    rank: int,
    score: float,
    chunk_id: int,
    passage: Passage,
    stages: dict[str, StageScore],
    sentence: tuple[int, int] | None,
) -> Hit:
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
        sentence,
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
