"""`heading_direct`: a section's heading, word for word. Gold: the section and all sections below it.

A heading fits every document whose title and one heading together contain all of its words. Up to `MOST` such documents
are all judged relevant. A heading that fits more ("Related documents") is too ambiguous and is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from surefind.exam._documents import Candidate, ExamDocuments, Heading, plain, terms
from surefind.exam.model import Judgment
from surefind.text.scripts import count_words
from surefind.text.sections import Section
from surefind.types import Document

MOST = 3
_NUMBERING = re.compile(
    r"^(?:(?:step|part|section|appendix)\s+\w{1,3}[.:)—–-]\s*|[\d.]+[.)]?\s+|[A-Z]\.\s+)", re.IGNORECASE
)


def heading_direct(corpus: ExamDocuments) -> Iterator[Candidate]:
    fitting: dict[frozenset[str], list[Heading]] = {}
    for document in corpus.documents:
        for section in corpus.sections(document):
            heading = clean_heading(section.title)
            if heading and section.end - section.body > 40:
                wanted = frozenset(terms(heading))
                if wanted not in fitting:  # many documents have the same headings
                    fitting[wanted] = _fitting(corpus, wanted)
                judgments = _judged(corpus, document, section, fitting[wanted])
                if judgments:
                    yield Candidate(heading, document.id, judgments)


def clean_heading(title: str) -> str:
    """The heading without numbering and markup; "" if it is too short or too long for a question."""
    heading = _NUMBERING.sub("", plain(title)).strip(" :.–—-：。")
    return heading if len(set(terms(heading))) >= 2 and count_words(heading) <= 15 else ""


def _fitting(corpus: ExamDocuments, wanted: frozenset[str]) -> list[Heading]:
    """The sections that these terms fit, from at most `MOST` + 1 documents. A fitting section contains all the terms,
    so only the sections with the rarest term are examined."""
    found: list[Heading] = []
    documents: set[str] = set()
    for heading in min((corpus.headings.get(term, []) for term in wanted), key=len):
        if wanted <= heading.with_title and heading.own & wanted:
            found.append(heading)
            documents.add(heading.document.id)
            if len(documents) > MOST:
                break
    return found


def _judged(
    corpus: ExamDocuments, document: Document, section: Section, fitting: list[Heading]
) -> tuple[Judgment, ...]:
    """Judgments of the heading's own section and all others that it fits; none if these are in too many documents."""
    found = {(document.id, section.start): (document, section)}
    found |= {(h.document.id, h.section.start): (h.document, h.section) for h in fitting}
    if len({id for id, _ in found}) > MOST:
        return ()
    spans = [corpus.judge(d, s.start, corpus.subtree_end(d, s)) for d, s in found.values()]
    return tuple(sorted(spans, key=lambda j: (j.document, j.start or 0)))
