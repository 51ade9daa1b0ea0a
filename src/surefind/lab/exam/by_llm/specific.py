"""Finds questions that many documents answer, so that no search can know which one is meant: "What is the title of the
document?", "What is the name of the member?".

A question fits a document if one of its passages has all of the question's words, apart from those that any question
may have (`_ASKS`). One that fits `_SHARE` of the documents, and at least `_MIN_DOCUMENTS`, asks for nothing in
particular.
"""

from __future__ import annotations

from collections.abc import Iterable

from surefind.lab.exam._words import of_token, query_words, terms
from surefind.lab.exam.by_llm.passages import SourcePassage

_ASKS = frozenset(
    terms(
        "name title purpose process procedure role version status scope type date number frequency method format total "
        "main goal objective topic subject description definition meaning summary document policy section page file "
        "author company organization product service person people"
    )
)
_SHARE = 0.05
_MIN_DOCUMENTS = 3


def particular(question: str) -> frozenset[str]:
    """The terms of a question that not any question may have; none if it asks for nothing in particular."""
    return frozenset(term for word in query_words(question) for term in of_token(word)) - _ASKS


class Specific:
    """Tells questions that ask for something in particular."""

    def __init__(self, passages: Iterable[SourcePassage]) -> None:
        self._terms = [(passage.document, frozenset(terms(passage.text))) for passage in passages]
        documents = len({document for document, _ in self._terms})
        self._most = max(_MIN_DOCUMENTS, round(_SHARE * documents))

    def __call__(self, question: str) -> bool:
        asked = particular(question)
        fitting: set[str] = set()
        for document, known in self._terms:
            if asked <= known:
                fitting.add(document)
                if len(fitting) >= self._most:
                    return False
        return True
