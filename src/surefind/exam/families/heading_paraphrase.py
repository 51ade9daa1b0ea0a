"""`heading_paraphrase`: a heading as a question in other words.

Gold: as for `heading_direct`. A heading is left out if the lexicon has no other word for any of its words, because
"what is" before the heading would not be a paraphrase. It is also left out if the words that stay do not point at few
documents ("how do I look at the alerts?" fits any of them): one word must be rare, and if it is the only one, very
rare. The lexicon is English, so only English documents are used.
"""

from __future__ import annotations

from collections.abc import Iterator

from surefind.exam._documents import Candidate, ExamDocuments, terms
from surefind.exam._paraphrase import paraphrase
from surefind.exam.families.heading_direct import MOST, heading_direct
from surefind.exam.overlap import content_terms
from surefind.text.language import is_english


def heading_paraphrase(corpus: ExamDocuments) -> Iterator[Candidate]:
    english = {document.id for document in corpus.documents if is_english([document.text])}
    for candidate in heading_direct(corpus):
        if candidate.document not in english:
            continue
        reworded = paraphrase(candidate.text, f"{corpus.seed}:{candidate.document}")
        if reworded and _points(corpus, content_terms(reworded) & frozenset(terms(candidate.text))):
            yield Candidate(reworded, candidate.document, candidate.judgments, source=candidate.text)


def _points(corpus: ExamDocuments, kept: frozenset[str]) -> bool:
    """Whether the terms that the question shares with its heading point at few documents."""
    fewest = min((corpus.frequency[term] for term in kept), default=0)
    return 0 < fewest <= MOST or (len(kept) > 1 and any(map(corpus.is_rare, kept)))
