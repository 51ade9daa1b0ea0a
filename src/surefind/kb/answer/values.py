"""The answer to a question, and the steps in which it arrives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from surefind.base.types import SURE, Hit, SearchResult, in_words

NOT_HERE = "Nothing here answers this."
"""The answer if no passage answers the question."""
NOT_SURE = "Not sure. The closest passages:"
"""What stands before the closest passages if one of them may answer the question."""
WRITES = "The model writes:"
"""What stands between the quotes and what a model wrote."""
State = Literal["answered", "not_sure", "not_here"]


@dataclass(frozen=True, slots=True)
class Cited:
    """A quote, or a sentence that a model wrote, and the numbers of the hits that say it: those of `Answer.cited`,
    counted from 1."""

    text: str
    """A quote has a line for each of its paragraphs, items, rows and lines of code."""
    citations: tuple[int, ...]
    mark: tuple[int, int] | None = None
    """The characters of a quote that answer best."""
    span: tuple[int, int] | None = None
    """Where a quote stands in the text of its document."""

    @property
    def quoted(self) -> bool:
        """Whether it stands in a document, and no model wrote it."""
        return self.span is not None

    @property
    def cited_text(self) -> str:
        """The text with its citations, such as [1]."""
        return self.text + "".join(f" [{number}]" for number in self.citations)

    def to_dict(self) -> dict[str, Any]:
        mark = self.mark and list(self.mark)
        return {"text": self.text, "citations": list(self.citations), "mark": mark, "quoted": self.quoted}


def numbered(said: Iterable[tuple[Cited, Sequence[Hit]]]) -> tuple[tuple[Cited, ...], tuple[Hit, ...]]:
    """Numbers the hits that sentences cite, in the order in which they are cited first."""
    numbers: dict[str, int] = {}
    cited: list[Hit] = []
    sentences = []
    for sentence, hits in said:
        for hit in hits:
            if numbers.setdefault(hit.id, len(cited) + 1) > len(cited):
                cited.append(hit)
        marks = tuple(dict.fromkeys(numbers[hit.id] for hit in hits))
        sentences.append(Cited(sentence.text, marks, sentence.mark, sentence.span))
    return tuple(sentences), tuple(cited)


UNSURE = ("", SURE[1][1])
"""What a search says that is not sure of its first passage, or cannot tell: the question may be in another language."""


@dataclass(frozen=True, slots=True)
class Answer:
    query: str
    sentences: tuple[Cited, ...]
    """What answers the question: quotes, and after them what a model wrote. If it is not sure, the quotes are of the
    closest passages; empty if nothing here answers it."""
    result: SearchResult
    """The search that the answer is made from."""
    cited: tuple[Hit, ...] = ()
    """The hits that are cited, in the order of their numbers."""
    model: str = ""
    """The language model that wrote some of the sentences; empty if all are quotes."""
    dropped: tuple[str, ...] = ()
    """Sentences of the model that the cited passages do not say."""
    note: str = ""
    """Why a model was not used, or failed."""
    dollars: float = 0.0
    invented: int = 0
    """Citations of the model that named no passage. They are left out."""

    @property
    def confidence(self) -> float | None:
        """The probability that the first passage answers the question, as the search says; None if it was not
        computed."""
        return self.result.confidence

    @property
    def sure(self) -> str:
        """The confidence in words, as the search says them; empty if it was not computed."""
        return self.result.sure

    @property
    def state(self) -> State:
        if not self.sentences:
            return "not_here"
        return "not_sure" if self.sure in UNSURE else "answered"

    @property
    def answered(self) -> bool:
        """Whether it answers. Where it is not sure, it only shows what is closest."""
        return self.state == "answered"

    @property
    def closest(self) -> Hit | None:
        """The best passage, if nothing answers the question."""
        if self.sentences:
            return None
        return self.result.hits[0] if self.result.hits else self.result.closest

    @property
    def text(self) -> str:
        """The answer as text, with citations such as [1]."""
        quotes = [sentence.cited_text for sentence in self.sentences if sentence.quoted]
        parts = [NOT_SURE, *quotes] if self.state == "not_sure" and quotes else quotes
        if self.written:
            said = " ".join(sentence.cited_text for sentence in self.written)
            parts.append(f"{WRITES} {said}" if quotes else said)
        return "\n\n".join(parts) or NOT_HERE

    @property
    def written(self) -> tuple[Cited, ...]:
        """The sentences that a model wrote."""
        return tuple(sentence for sentence in self.sentences if not sentence.quoted)

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON form, the same for every interface."""
        return {
            "query": self.query,
            "searched": self.result.searched or None,
            "answered": self.answered,
            "state": self.state,
            "answer": self.text,
            "sentences": [sentence.to_dict() for sentence in self.sentences],
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


def refuses(result: SearchResult) -> bool:
    """Whether a search says that the answer is probably not here: then nothing is quoted, and no model is asked."""
    return not result.hits or in_words(result.confidence) == SURE[-1][1]
