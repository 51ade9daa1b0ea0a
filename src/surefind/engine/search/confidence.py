"""How sure a search is: the probability that its first passage answers the query.

`quick` computes it from what the search has found already. `read` lets the bundled cross-encoder read the first
passages. Both see what the caller may: withheld documents take no part, except that BM25 weighs words by how many
passages of the index have them (`isolation = "statistics"` changes that).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefind.base.errors import SurefindError
from surefind.base.text.languages import language_of, name_of
from surefind.base.types import PAD, Effort, Floats, Hit, IdArray, Query, Quote, Rankings, Wording
from surefind.engine.confidence.answering import probability
from surefind.engine.confidence.signals import READ, TOKENS, Kind, overlap, reading_signals, signals, with_reading
from surefind.engine.rerank.cross_encoder import bundled_reader
from surefind.engine.search.pipeline import Pipeline, Reading, Run, fold
from surefind.engine.search.quoting import QUOTED, block_reader, quotes
from surefind.engine.store.backend import Passage, View

_READ = 2_000
"""The most characters of a passage that are compared with the query. More would take longer than all the rest."""
_AROUND = 1
"""Passages on either side that the reader may find the answer in."""
Wordings = Sequence[Sequence[Wording] | None]


@dataclass(frozen=True, slots=True)
class Confidence:
    """How sure a search is of its first hit."""

    confidence: float | None
    """None if it was not to be found out, or cannot be."""
    calibrated: str = ""
    """What the probability was calibrated on, or why there is none."""
    own: bool = False
    """Whether that were questions about these documents."""
    known_words: float | None = None
    """The share of the query's words that occur in the documents; None if no retriever looks at words."""
    quotes: tuple[Quote, ...] = ()
    """What was read in the first passages, if they were read."""


UNKNOWN = Confidence(None)
"""Of a search that was not to find out."""


def confidence_of(
    run: Run,
    query: Query,
    pipeline: Pipeline,
    reading: Reading,
    effort: Effort = "quick",
    first: Hit | None = None,
) -> Confidence:
    """Returns how sure a search for one query is. `first` is its first hit, if that has been read already."""
    words = _wordings([query], pipeline, reading)
    known = next((word[0].known / word[0].words for word in words if word and word[0].words), None)
    if not len(run.rankings.row(0)[0]):
        return Confidence(0.0, "nothing was found", known_words=known)
    texts = {0: _of_hit(first)} if first else _texts(_last(run), reading)
    kind, values = _signals(run, [query], pipeline, reading.view, words, texts)
    failed: str = ""
    read: tuple[Quote, ...] = ()
    passage = texts.get(0, "")
    if across := _across(query.text, passage):  # they share few words, and nothing else was measured
        read = quotes(query.text, _first(run, 0, reading), None) if effort == "read" else ()
        return Confidence(None, across, known_words=known, quotes=read)
    if effort == "read" and not _in_english(passage):
        read = quotes(query.text, _first(run, 0, reading), None)
    elif effort == "read":
        try:
            read, signals_read = _read(run, 0, query, reading)
            kind, values = with_reading(kind, values, signals_read[None])
        except SurefindError as error:  # no model, or a damaged one: the search itself does not need it
            failed = f"; no model read the hits: {error}"
            read = quotes(query.text, _first(run, 0, reading), None)
    estimate = probability(reading.services, str(pipeline), pipeline.retrieve, reading.view, kind, values)
    return Confidence(estimate.p, estimate.words + failed, estimate.own, known, read)


def _across(query: str, passage: str) -> str:
    """Says that a question and a passage are in different languages; empty if they are in one, or it is not sure."""
    asked, answered = language_of(query), language_of(passage)
    if not asked or not answered or asked == answered:
        return ""
    return f"the question is in {name_of(asked)} and the first passage in {name_of(answered)}"


def _in_english(passage: str) -> bool:
    """Whether a passage is in English, as far as one can tell: the bundled reader reads nothing else."""
    return language_of(passage) in ("", "en")


def signals_of(
    run: Run, queries: Sequence[Query], pipeline: Pipeline, reading: Reading, effort: Effort = "quick"
) -> tuple[Kind, Floats]:
    """Returns the signals of each query of a run, and their kind. They do not depend on how many hits were wanted."""
    words = _wordings(queries, pipeline, reading)
    kind, values = _signals(run, queries, pipeline, reading.view, words, _texts(_last(run), reading))
    if effort != "read":
        return kind, values
    read = [_read(run, number, query, reading)[1] for number, query in enumerate(queries)]
    return with_reading(kind, values, np.array(read))


def _read(run: Run, number: int, query: Query, reading: Reading) -> tuple[tuple[Quote, ...], Floats]:
    """Reads the first passages of a query: returns their quotes, and the signals."""
    ids = _last(run).row(number)[0][:READ].tolist()
    chunks = [passage.chunk for passage in reading.passages(ids, _AROUND)]
    logits = bundled_reader(TOKENS).score(query.text, chunks)
    read = quotes(query.text, _first(run, number, reading), block_reader())
    return read, reading_signals(logits, read)


def _first(run: Run, number: int, reading: Reading) -> Sequence[Passage]:
    """The first passages of a query, whole: they do not depend on which hits are asked for."""
    return reading.passages(_last(run).row(number)[0][:QUOTED].tolist())


def _wordings(queries: Sequence[Query], pipeline: Pipeline, reading: Reading) -> Wordings:
    return [reading.view.wording(retriever, queries, reading.access) for retriever in pipeline.retrieve]


def _signals(
    run: Run, queries: Sequence[Query], pipeline: Pipeline, view: View, wordings: Wordings, texts: dict[int, str]
) -> tuple[Kind, Floats]:
    retrieved = [rankings for _, rankings in run.stages[: len(wordings)]]
    known = next((words for words in wordings if words is not None), None)
    overlaps = np.zeros(len(queries))
    for row, text in texts.items():
        overlaps[row] = overlap(queries[row].text, text, known[row] if known else None)
    return signals(_last(run), _before_reranking(run, pipeline, view), retrieved, wordings, overlaps)


def _last(run: Run) -> Rankings:
    """The ranking whose first passage is judged: the last one before the search went deeper for more hits."""
    return next(rankings for name, rankings in reversed(run.stages) if name != "deeper")


def _before_reranking(run: Run, pipeline: Pipeline, view: View) -> Rankings:
    """The ranking whose scores are compared. Rerankers score the first passages alone, each on a scale of its own."""
    if not pipeline.rerank:
        return _last(run)
    _, joined = run.stages[len(pipeline.retrieve) - (pipeline.fuse is None)]
    return fold(joined, view.parents)


def _texts(last: Rankings, reading: Reading) -> dict[int, str]:
    """The text of each query's first passage, if there is one, by the number of the query."""
    first: IdArray = last.ids[:, 0] if last.ids.shape[1] else np.full(len(last), PAD)
    rows = np.flatnonzero(first != PAD)
    passages = reading.passages(first[rows].tolist())
    return dict(zip(rows.tolist(), map(_of_passage, passages), strict=True))


def _of_hit(hit: Hit) -> str:
    return _text(hit.title, hit.headings, hit.text, hit.start, hit.matched)


def _of_passage(passage: Passage) -> str:
    chunk = passage.chunk
    return _text(passage.title, chunk.headings, chunk.text, chunk.start, passage.matched)


def _text(title: str, headings: Sequence[str], text: str, start: int, matched: tuple[int, int] | None) -> str:
    """The text to compare with the query: the titles above it, and `_READ` characters around the part that matched."""
    middle = sum(matched) // 2 - start if matched else 0
    begin = max(0, min(middle - _READ // 2, len(text) - _READ))
    return "\n".join([title, *headings, text[begin : begin + _READ]])
