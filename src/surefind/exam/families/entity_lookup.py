"""`entity_lookup`: an identifier, form number, code, acronym or name that stands in few documents.

Gold: the sentences that hold it, in every document that does. One that stands in more than `MOST` documents names
no document in particular and is dropped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from surefind.exam._corpus import Candidate, Corpus
from surefind.exam._names import named
from surefind.text.scripts import HANGUL, UNSPACED, pattern
from surefind.text.sentences import sentence_spans
from surefind.types import Document

MOST = 3
_SPANS = 5


def entity_lookup(corpus: Corpus) -> Iterator[Candidate]:
    places: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    by_id = {document.id: document for document in corpus.documents}
    for document in corpus.documents:
        for entity, start in named(document.text):
            places[entity][document.id].append(start)
    standing = _documents_of(corpus, places)
    for entity, documents in places.items():
        # Every document that holds the words, in whatever case, fits the question: all are judged, or none.
        if len(standing[entity.lower()]) <= MOST and standing[entity.lower()] == set(documents):
            judgments = tuple(
                corpus.judge(by_id[id], *span)
                for id, starts in sorted(documents.items())
                for span in _sentences(by_id[id], starts)
            )
            yield Candidate(entity, min(documents), judgments)


def _documents_of(corpus: Corpus, entities: Iterable[str]) -> dict[str, set[str]]:
    """Lower-cased entity -> the documents that hold it as whole words."""
    found: dict[str, set[str]] = {entity.lower(): set() for entity in entities}
    for document in corpus.documents:
        text = document.text.lower()
        for entity, documents in found.items():
            at = text.find(entity)
            while at >= 0:
                if not _joins(text, at - 1) and not _joins(text, at + len(entity)):
                    documents.add(document.id)
                    break
                at = text.find(entity, at + 1)
    return found


def _joins(text: str, at: int) -> bool:
    if not 0 <= at < len(text):
        return False
    return text[at] == "_" or (text[at].isalnum() and not pattern(f"[{UNSPACED}{HANGUL}]").match(text[at]))


def _sentences(document: Document, starts: list[int]) -> list[tuple[int, int]]:
    """The sentence (at most its own line block) around each place, each once."""
    found: dict[tuple[int, int], None] = {}
    for at in starts[:_SPANS]:
        left = document.text.rfind("\n", 0, at) + 1
        right = document.text.find("\n", at)
        right = len(document.text) if right < 0 else right
        spans = sentence_spans(document.text, left, right)
        found[next(span for span in spans if span[0] <= at < span[1])] = None
    return list(found)
