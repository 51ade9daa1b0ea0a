"""How sure a search is: the probability that its first passage answers the query.

It is computed from what the search has found already, and under the caller's access: withheld documents take no part,
except that BM25 weighs words by how many passages of the index have them (`isolation = "statistics"` changes that).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefind.access import Access
from surefind.confidence.answering import probability
from surefind.confidence.signals import Kind, overlap, signals
from surefind.protocols import Services
from surefind.search.pipeline import Pipeline, Run
from surefind.store.backend import View
from surefind.types import PAD, Floats, IdArray, Query, Rankings, Wording


@dataclass(frozen=True, slots=True)
class Sureness:
    """How sure a search is of its first hit."""

    confidence: float
    calibrated: str
    """What the probability was calibrated on."""
    known_words: float | None
    """The share of the query's words that occur in the documents; None if no retriever looks at words."""


def sureness(run: Run, query: Query, pipeline: Pipeline, view: View, services: Services, access: Access) -> Sureness:
    """Returns how sure a search for one query is. It costs less than a millisecond and searches nothing."""
    words = _wordings([query], pipeline, view, access)
    known = next((one[0].known / max(1, one[0].words) for one in words if one), None)
    if not len(run.rankings.row(0)[0]):
        return Sureness(0.0, "nothing was found", known)
    kind, values = _signals(run, [query], words, view, access)
    folder, retrievers = services.models_folder, pipeline.retrieve
    return Sureness(*probability(folder, str(pipeline), retrievers, view, kind, values), known)


def signals_of(
    run: Run, queries: Sequence[Query], pipeline: Pipeline, view: View, access: Access
) -> tuple[Kind, Floats]:
    """Returns the signals of each query of a run, and their kind. They do not depend on how many hits were wanted."""
    return _signals(run, queries, _wordings(queries, pipeline, view, access), view, access)


def _wordings(
    queries: Sequence[Query], pipeline: Pipeline, view: View, access: Access
) -> list[Sequence[Wording] | None]:
    return [view.wording(retriever, queries, access) for retriever in pipeline.retrieve]


def _signals(
    run: Run, queries: Sequence[Query], wordings: Sequence[Sequence[Wording] | None], view: View, access: Access
) -> tuple[Kind, Floats]:
    last = _judged(run)
    retrieved = [rankings for _, rankings in run.stages[: len(wordings)]]
    return signals(last, retrieved, wordings, _overlaps(last, queries, wordings, view, access))


def _judged(run: Run) -> Rankings:
    """The ranking whose first passage is judged: the last one before the search went deeper for more hits."""
    return next(rankings for name, rankings in reversed(run.stages) if name != "deeper")


def _overlaps(
    last: Rankings,
    queries: Sequence[Query],
    wordings: Sequence[Sequence[Wording] | None],
    view: View,
    access: Access,
) -> Floats:
    found = np.zeros(len(queries))
    first: IdArray = last.ids[:, 0] if last.ids.shape[1] else np.full(len(queries), PAD)
    rows = np.flatnonzero(first != PAD)
    known = next((words for words in wordings if words is not None), None)
    for row, chunk in zip(rows.tolist(), view.chunks(first[rows].tolist(), access), strict=True):
        text = "\n".join([chunk.title, *chunk.headings, chunk.text])
        found[row] = overlap(queries[row].text, text, known[row] if known else None)
    return found
