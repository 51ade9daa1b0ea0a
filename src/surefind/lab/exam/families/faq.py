"""`faq`: questions that the documents themselves ask and answer. Gold: the answer.

Two forms are read: a heading that ends in a question mark, with its section as the answer, and a paragraph that begins
with `Q:` (or `Question:`), followed by one that begins with `A:` (or `Answer:`). A question that more than one document
asks is dropped. The question stays in the index, so these questions are a regression exam and no measure of quality.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from surefind.base.text.scripts import count_words
from surefind.lab.exam._documents import Drafts, ExamDocuments, PossibleQuestion, QuestionSeed
from surefind.lab.exam._words import is_prose, plain, terms
from surefind.lab.exam.model import Judgment

_Q, _A = (rf"[ \t>*_-]*(?:{word})[ \t]?\d*[*_]*[:.]" for word in ("Q|Question", "A|Answer"))
_PAIR = re.compile(
    rf"^{_Q}[*_]*[ \t]*(?P<question>[^\n]{{5,300}}\?)[*_ \t]*\n\s*(?P<answer>{_A}[^\n]*(?:\n(?!\s*\n|{_Q})[^\n]*)*)",
    re.MULTILINE,
)
_QUESTION = re.compile(rf"^{_Q}", re.MULTILINE)
_MARK = re.compile(r"[?？؟]$")
_MIN_QUESTION_WORDS = 3


def faq(corpus: ExamDocuments) -> Drafts:
    by_terms: dict[frozenset[str], list[tuple[str, Judgment]]] = defaultdict(list)
    for text, judgment in _asked(corpus):
        if count_words(text) >= _MIN_QUESTION_WORDS and is_prose(text):
            by_terms[frozenset(terms(text))].append((text, judgment))
    drafts: dict[str, list[QuestionSeed]] = defaultdict(list)
    for asked in by_terms.values():
        if len({judgment.document for _, judgment in asked}) == 1:
            text, judgment = asked[0]
            candidate = PossibleQuestion(text, judgment.document, tuple(judgment for _, judgment in asked))
            drafts[judgment.document].append(QuestionSeed.of(candidate))
    return lambda document: drafts[document.id]


def _asked(corpus: ExamDocuments) -> Iterator[tuple[str, Judgment]]:
    for document in corpus.documents:
        if any(_MARK.search(text) for text in corpus.possible_headings[document.id]):
            for heading in corpus.headings(document):
                if _MARK.search(heading.text):
                    yield heading.text, corpus.judge(document, heading.start, heading.end)
        if _QUESTION.search(document.text):
            for match in _PAIR.finditer(corpus.readable(document)):
                yield plain(match["question"]), corpus.judge(document, *match.span("answer"))
