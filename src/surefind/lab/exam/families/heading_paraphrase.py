"""`heading_paraphrase`: a heading as a question in other words.

Gold: as for `heading_direct`. A heading is left out if the lexicon has no other word for any of its words, because
"what is" before the heading would not be a paraphrase. It is also left out if the words that stay do not point at few
documents ("how do I look at the alerts?" fits any of them): one word must be rare, and if it is the only one, very
rare. So is one whose section says next to nothing besides its links. The lexicon is English, so only English
documents are used.

`heading_paraphrase_titled` keeps a heading that points at too many documents: it names the document in the question,
"…, in Vendor Management Policy?". Studies that want a certain share of paraphrases use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from surefind.base.text.scripts import count_words
from surefind.base.types import Document
from surefind.lab.exam._documents import Drafts, ExamDocuments, PossibleQuestion, QuestionSeed
from surefind.lab.exam._headings import Heading
from surefind.lab.exam._paraphrase import paraphrase
from surefind.lab.exam._words import terms
from surefind.lab.exam.families.heading_direct import MAX_DOCUMENTS, clean_heading, judged
from surefind.lab.exam.language import is_english
from surefind.lab.exam.overlap import content_terms

_MIN_SECTION_WORDS = 12
"""Words of a section that answers a question."""
_LINK = re.compile(r"\[[^\]\n]{0,200}\]\([^)\n]{0,500}\)")


def heading_paraphrase(corpus: ExamDocuments) -> Drafts:
    return _drafts(corpus, False)


def heading_paraphrase_titled(corpus: ExamDocuments) -> Drafts:
    return _drafts(corpus, True)


def _drafts(corpus: ExamDocuments, titled: bool) -> Drafts:
    def drafts(document: Document) -> Iterator[QuestionSeed]:
        possible = any(_reworded(corpus, document, text) for text in corpus.possible_headings[document.id])
        for heading in corpus.headings(document) if possible and is_english([document.text]) else ():
            reworded = _reworded(corpus, document, heading.text)
            reworded = reworded and _reworded(corpus, document, heading.text, document.text)
            if reworded:
                yield QuestionSeed(heading.text, partial(_ask, corpus, reworded, heading, titled))

    return drafts


def _reworded(corpus: ExamDocuments, document: Document, heading: str, text: str = "") -> str:
    """The question; without the document's text, only whether there may be one."""
    return paraphrase(heading, f"{corpus.seed}:{document.id}", text) if clean_heading(heading) else ""


def _ask(corpus: ExamDocuments, reworded: str, heading: Heading, titled: bool = False) -> PossibleQuestion | None:
    kept = content_terms(reworded) & frozenset(terms(heading.text))
    title = frozenset(terms(heading.document.title))
    if titled and not points(corpus, kept) and not title <= heading.own:
        reworded, kept = f"{reworded.rstrip('?')}, in {heading.document.title}?", kept | title
    judgments = judged(corpus, heading) if points(corpus, kept) and _answers(heading) else ()
    return PossibleQuestion(reworded, heading.document.id, judgments, source=heading.text) if judgments else None


def _answers(heading: Heading) -> bool:
    """Whether the section has text of its own: "See the page about …" answers nothing."""
    section = heading.document.text[heading.start : heading.end]
    return count_words(_LINK.sub("", section)) - count_words(heading.text) >= _MIN_SECTION_WORDS


def points(corpus: ExamDocuments, kept: frozenset[str]) -> bool:
    """Whether the terms that the question shares with its heading point at few documents."""
    fewest = min((corpus.frequency[term] for term in kept), default=0)
    return 0 < fewest <= MAX_DOCUMENTS or (len(kept) > 1 and any(map(corpus.is_rare, kept)))
