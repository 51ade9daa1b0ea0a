"""The answer to a question, and the steps in which it arrives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from surefind.base.types import SURE, Hit, SearchResult, in_words

NOT_HERE = "Nothing here answers this."
"""The answer if no passage answers the question."""


@dataclass(frozen=True, slots=True)
class Cited:
    """A sentence, and the ranks of the hits that say it."""

    text: str
    citations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    query: str
    sentences: tuple[Cited, ...]
    """Empty if nothing here answers the question."""
    result: SearchResult
    """The search that the answer is made from."""
    model: str = ""
    """The language model that wrote it; empty if the sentences are quotes."""
    dropped: tuple[str, ...] = ()
    """Sentences of the model that the cited passages do not say."""
    note: str = ""
    """Why a model was not used, or failed."""
    dollars: float = 0.0
    confidence: float | None = None
    """The probability that the first sentence answers the question; None if it was not computed."""
    closest: Hit | None = None
    """The best passage, if nothing answers the question."""

    @property
    def sure(self) -> str:
        """The confidence in words; empty if it was not computed. What is quoted is perhaps here, at least."""
        words = in_words(self.confidence)
        return SURE[1][1] if self.answered and words == SURE[-1][1] else words

    @property
    def answered(self) -> bool:
        return bool(self.sentences)

    @property
    def text(self) -> str:
        """The answer as text, with citations such as [1]."""
        shown = (sentence.text + "".join(f" [{rank}]" for rank in sentence.citations) for sentence in self.sentences)
        return " ".join(shown) or NOT_HERE

    @property
    def cited(self) -> tuple[Hit, ...]:
        """The hits that are cited."""
        ranks = {rank for sentence in self.sentences for rank in sentence.citations}
        return tuple(hit for hit in self.result.hits if hit.rank in ranks)

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form, the same for every interface."""
        return {
            "query": self.query,
            "answered": self.answered,
            "answer": self.text,
            "sentences": [
                {"text": sentence.text, "citations": list(sentence.citations)} for sentence in self.sentences
            ],
            "citations": [hit.to_dict() for hit in self.cited],
            "confidence": self.confidence,
            "sure": self.sure,
            "model": self.model or None,
            "dropped": list(self.dropped),
            "note": self.note or None,
            "closest": {"document": self.closest.document, "title": self.closest.title} if self.closest else None,
            "dollars": self.dollars,
            "generation": self.result.generation,
        }


@dataclass(frozen=True, slots=True)
class AnswerStep:
    """A part of an answer, as soon as it is known: the search, each sentence, and in the end the whole."""

    kind: Literal["search", "sentence", "end"]
    value: SearchResult | Cited | Answer
