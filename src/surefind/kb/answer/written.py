"""Answers by a language model: it reads the passages of the search, or summaries of the communities that were found.
Each of its sentences is checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from surefind.base.errors import AnswerError, SurefindError
from surefind.base.prompts.fence import Data
from surefind.base.prompts.values import Completion
from surefind.base.protocols import Services
from surefind.base.types import Hit, SearchResult
from surefind.engine.llm.ask import ask
from surefind.engine.llm.reply import read_object
from surefind.kb.answer.overview import CommunityTold
from surefind.kb.answer.support import supported
from surefind.kb.answer.values import Cited

_SLOTS = ("passages", "query")
_MAX_TOKENS = 500
_PROMPT, _GLOBAL = "v1", "global"


@dataclass(frozen=True)
class WrittenAnswer:
    """What the model wrote, sentence by sentence."""

    sentences: tuple[Cited, ...]
    dropped: tuple[str, ...]
    model: str
    dollars: float


def write(
    result: SearchResult, services: Services, model: str | None = None, communities: Sequence[CommunityTold] = ()
) -> WrittenAnswer:
    """Asks the model. With `communities`, it reads their summaries instead of the passages, and cites the passages of
    those that it names. Raises a `SurefindError` if it does not answer, or not as it was asked to."""
    template = services.prompt("ask", _GLOBAL if communities else _PROMPT, _SLOTS)
    read = [(community.summary, community.hits) for community in communities] or [
        (_shown(hit), (hit,)) for hit in result.hits
    ]
    shown = [Data("passage", text, number) for number, (text, _) in enumerate(read, 1)]
    prompt = template.messages(passages=shown, query=Data("query", result.query))
    (answer,) = ask(
        services,
        model,
        [prompt],
        max_tokens=_MAX_TOKENS,
        usable=lambda at, answer_text: _sentences(answer_text) is not None,
    )
    if isinstance(answer, SurefindError):
        raise answer
    sentences = _sentences(answer)
    if sentences is None:
        raise AnswerError("The model's answer had no list of sentences.")
    kept, dropped = [], []
    for text, numbers in sentences:
        named = [read[number - 1] for number in numbers if 1 <= number <= len(read)]
        cited = [hit for _, hits in named for hit in hits]
        if supported(text, cited, [summary for summary, _ in named] if communities else ()):
            kept.append(Cited(text, tuple(dict.fromkeys(hit.rank for hit in cited))))
        else:
            dropped.append(text)
    return WrittenAnswer(tuple(kept), tuple(dropped), answer.model or services.chat_name(model), answer.dollars)


def _shown(hit: Hit) -> str:
    heading = " > ".join(dict.fromkeys((hit.title, *hit.headings)))
    return f"{heading}\n{hit.text}"


def _sentences(answer: Completion) -> list[tuple[str, list[int]]] | None:
    """Returns (text, numbers of passages) of each sentence; None if the answer has no such list."""
    rows = (read_object(answer.text) or {}).get("sentences")
    if not isinstance(rows, list):
        return None
    return [sentence for row in rows if (sentence := _sentence(row)) is not None]


def _sentence(row: Any) -> tuple[str, list[int]] | None:
    if not isinstance(row, dict):
        return None
    text, numbers = row.get("text"), row.get("passages")
    if not isinstance(text, str) or not text.strip() or not isinstance(numbers, list):
        return None
    return " ".join(text.split()), [number for number in numbers if type(number) is int]
