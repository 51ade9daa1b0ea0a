"""`entity_lookup`: an identifier, form number, code, acronym or name that occurs in few documents.

Gold: the sentences that contain it, in every document. An entity in more than `MOST` documents is too ambiguous and is
dropped.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from operator import itemgetter

from surefind.exam._documents import Candidate, ExamDocuments
from surefind.exam._names import named
from surefind.text.scripts import HANGUL, UNSPACED, pattern
from surefind.text.sentences import sentence_spans
from surefind.types import Document

MOST = 3
_SPANS = 5
"""Most occurrences per document whose sentences become gold."""
_RUN = re.compile(r"\w+")


Spans = list[tuple[int, int]]


def entity_lookup(corpus: ExamDocuments) -> Iterator[Candidate]:
    places: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    by_id = {document.id: document for document in corpus.documents}
    for document in corpus.documents:
        for entity, start in named(corpus.readable(document)):
            places[entity][document.id].append(start)
    found_in = _documents_of(corpus, places)
    lines: dict[tuple[str, int], Spans] = {}
    for entity, documents in places.items():
        # Every document that contains the words, in any case, fits the question: either all are judged, or none.
        if len(found_in[entity.lower()]) <= MOST and found_in[entity.lower()] == set(documents):
            judgments = tuple(
                corpus.judge(by_id[id], *span)
                for id, starts in sorted(documents.items())
                for span in _sentences(by_id[id], starts, lines)
            )
            yield Candidate(entity, min(documents), judgments)


def _documents_of(corpus: ExamDocuments, entities: Iterable[str]) -> dict[str, set[str]]:
    """Lower-cased entity -> the documents that contain it as whole words.

    Each document is read once, whatever the number of entities: an entity in whole words begins with a whole run of
    letters and digits, and `lengths` says how long the entities are that begin with this run.
    """
    found: dict[str, set[str]] = {entity.lower(): set() for entity in entities}
    lengths: dict[str, set[int]] = defaultdict(set)
    for entity in found:
        lengths[next(_runs(entity)).group()].add(len(entity))
    for document in corpus.documents:
        text = document.text.lower()
        for run in _runs(text):
            for length in lengths.get(run.group(), ()):
                end = run.start() + length
                documents = found.get(text[run.start() : end])
                if documents is not None and not _joins(text, end):
                    documents.add(document.id)
    return found


def _runs(text: str) -> Iterator[re.Match[str]]:
    """Runs of word characters; scripts without spaces and Hangul end a run."""
    return (_RUN if text.isascii() else pattern(rf"[^\W{UNSPACED}{HANGUL}]+")).finditer(text)


def _joins(text: str, at: int) -> bool:
    return at < len(text) and next(_runs(text[at]), None) is not None


def _sentences(document: Document, starts: list[int], lines: dict[tuple[str, int], Spans]) -> Spans:
    """The sentences around the given offsets, each once; a sentence never crosses a line. `lines` caches the sentences
    of each line, because a line may contain many entities."""
    found: dict[tuple[int, int], None] = {}
    for at in starts[:_SPANS]:
        left = document.text.rfind("\n", 0, at) + 1
        if (document.id, left) not in lines:
            right = document.text.find("\n", at)
            lines[document.id, left] = sentence_spans(document.text, left, len(document.text) if right < 0 else right)
        spans = lines[document.id, left]
        found[spans[bisect_right(spans, at, key=itemgetter(0)) - 1]] = None
    return list(found)
