"""`alias`: another name of a document, from the `aliases` (or `alias`) of its front matter. Gold: the document.

Tags are not aliases: they name a topic, not a document. An alias that is the title, that several documents have, or
that is a path is dropped.
"""

from __future__ import annotations

from collections import defaultdict

from surefind.base.types import Document
from surefind.lab.exam._documents import Drafts, ExamDocuments, PossibleQuestion, QuestionSeed
from surefind.lab.exam._words import is_prose, plain, terms


def alias(corpus: ExamDocuments) -> Drafts:
    by_terms: dict[frozenset[str], dict[str, tuple[str, Document]]] = defaultdict(dict)
    for document in corpus.documents:
        for name in _names(document):
            own = frozenset(terms(name))
            if own and own != frozenset(terms(document.title)) and "/" not in name and is_prose(name):
                by_terms[own].setdefault(document.id, (name, document))
    titles = {frozenset(terms(document.title)) for document in corpus.documents}
    drafts: dict[str, list[QuestionSeed]] = defaultdict(list)
    for own, documents in by_terms.items():
        if len(documents) == 1 and own not in titles:
            ((name, document),) = documents.values()
            judgment = corpus.judge(document, 0, len(document.text))
            drafts[document.id].append(QuestionSeed.of(PossibleQuestion(name, document.id, (judgment,))))
    return lambda document: drafts[document.id]


def _names(document: Document) -> list[str]:
    given = document.metadata.get("aliases") or document.metadata.get("alias") or ()
    names = [given] if isinstance(given, str) else given if isinstance(given, list | tuple) else ()
    return [plain(name) for name in names if isinstance(name, str)]
