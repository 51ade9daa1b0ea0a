"""`entity_lookup`: an identifier, form number, code, acronym or name that stands in few documents.

Gold: the sentences that hold it, in every document that does. One that stands in more than `MOST` documents names
no document in particular and is dropped.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from surefind.exam._corpus import Candidate, Corpus
from surefind.text.sentences import sentence_spans
from surefind.types import Document

MOST = 3
_SPANS = 5
_CITE = r"\b\d+ (?:CFR|USC|U\.S\.C\.) (?:Part )?\d+(?:\.\d+)*(?:\([a-z0-9]{1,3}\))*"
_CODE = r"\b[A-Za-z]+(?:[-_*/.][A-Za-z0-9]+)*[-_*/]?\d[\w-]*(?:\.\d+)*\b|\b[A-Z]{2,}\*[A-Z]+\b"
_ACRONYM = r"\b[A-Z][A-Z0-9]{2,9}\b"
_CAMEL = r"\b[A-Z][a-z0-9]+(?:[A-Z][A-Za-z0-9]*){1,}\b"
_NAME = r"\b[A-Z][a-z]+(?: (?:of |and )?[A-Z][a-z]+\b){1,3}"
_INSIDE = re.compile(r"[a-z,;] $")
_TARGET = re.compile(r"\]\([^)\n]*\)|https?://\S+|<[^>\n]+>")
_ENTITY = re.compile("|".join((_CITE, _CODE, _ACRONYM, _CAMEL, _NAME)))
_NOISE = re.compile(r"^(?:[0-9a-f]{12,}|\d{4}-\d\d(?:-\d\d)?|https?.*|.*@.*|[A-Za-z]\d)$")


def entity_lookup(corpus: Corpus) -> Iterator[Candidate]:
    places: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    by_id = {document.id: document for document in corpus.documents}
    for document in corpus.documents:
        text = _TARGET.sub(lambda m: " " * len(m.group()), document.text)  # same length: offsets stay
        for match in _ENTITY.finditer(text):
            entity = match.group()
            # Capitals at the start of a sentence or heading are no name.
            named = (
                " " not in entity
                or entity[0].isdigit()
                or _INSIDE.search(text, max(0, match.start() - 2), match.start())
            )
            if 3 < len(entity) <= 60 and named and not _NOISE.match(entity):
                places[entity][document.id].append(match.start())
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
    return 0 <= at < len(text) and (text[at].isalnum() or text[at] == "_")


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
