"""`heading_direct`: a section's heading, word for word. Gold: the section with all below it.

Ambiguity: a heading fits every document whose title and one heading together hold all of its words. Up to
`MOST` such documents are all judged relevant; a heading that fits more ("Related documents") asks for nothing
in particular and is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from surefind.exam._corpus import Candidate, Corpus, plain, terms
from surefind.exam.model import Judgment
from surefind.text.scripts import count_words
from surefind.text.sections import Section
from surefind.types import Document

MOST = 3
_NUMBERING = re.compile(
    r"^(?:(?:step|part|section|appendix)\s+\w{1,3}[.:)—–-]\s*|[\d.]+[.)]?\s+|[A-Z]\.\s+)", re.IGNORECASE
)


def heading_direct(corpus: Corpus) -> Iterator[Candidate]:
    for document in corpus.documents:
        for section in corpus.sections(document):
            heading = clean_heading(section.title)
            if heading and section.end - section.body > 40:
                judgments = fitting(corpus, document, section, heading)
                if judgments:
                    yield Candidate(heading, document.id, judgments)


def clean_heading(title: str) -> str:
    """Without numbering and markup; empty if it is too short or too long to be asked."""
    heading = _NUMBERING.sub("", plain(title)).strip(" :.–—-：。")
    return heading if len(set(terms(heading))) >= 2 and count_words(heading) <= 15 else ""


def fitting(corpus: Corpus, document: Document, section: Section, heading: str) -> tuple[Judgment, ...]:
    """Every passage that the heading fits as well as its own, or nothing if those are too many."""
    wanted = frozenset(terms(heading))
    found = {(document.id, section.start): (document, section)}
    for term in wanted:
        for other, candidate, own in corpus.headings.get(term, []):
            if wanted <= own | corpus.title_terms[other.id] and (own & wanted):
                found[other.id, candidate.start] = (other, candidate)
    if len({id for id, _ in found}) > MOST:
        return ()
    spans = [corpus.judge(d, s.start, corpus.subtree_end(d, s)) for d, s in found.values()]
    return tuple(sorted(spans, key=lambda j: (j.document, j.start or 0)))
