"""`heading_paraphrase`: a heading asked in other words: synonyms, question forms, another order.

Gold: as for the heading itself. A heading for which the lexicon has no other word is left out, since putting
"what is" before it would be no paraphrase. The lexicon is English, and so must the document be.
"""

from __future__ import annotations

from collections.abc import Iterator

from surefind.exam._documents import Candidate, ExamDocuments
from surefind.exam._paraphrase import paraphrase
from surefind.exam.families.heading_direct import heading_direct
from surefind.text.language import is_english


def heading_paraphrase(corpus: ExamDocuments) -> Iterator[Candidate]:
    english = {document.id for document in corpus.documents if is_english([document.text])}
    for candidate in heading_direct(corpus):
        if candidate.document not in english:
            continue
        reworded = paraphrase(candidate.text, f"{corpus.seed}:{candidate.document}")
        if reworded:
            yield Candidate(reworded, candidate.document, candidate.judgments, source=candidate.text)
