"""`heading_paraphrase`: a heading in other words: synonyms, question forms, another order.

Gold: as for `heading_direct`. A heading for which the lexicon has no other word is left out, because "what is" before
the heading would not be a paraphrase. The lexicon is English, so only English documents are used.
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
