"""Asks a model to order lists of passages: instructions, an example if there is one, and the passages.

With `reverse` each list is shown twice, the second time in the reverse order (`surefind.engine.llm.readings`)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from surefind.base.errors import AnswerError, SurefindError
from surefind.base.prompts.fence import Data
from surefind.base.prompts.prompt import Prompt
from surefind.base.prompts.values import Completion, Message
from surefind.base.protocols import Services
from surefind.base.running.notes import note
from surefind.base.types import Chunk
from surefind.engine.llm.ask import ask
from surefind.engine.llm.permutation import NO_ORDER, read_order, shown
from surefind.engine.llm.readings import Readings, unreversed
from surefind.engine.llm.trained import RankedExample

_LISTED = re.compile(r"\[\d+(?:, \d+)+")
"""The beginning of a list of numbers."""
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"ranking": {"type": "array", "items": {"type": "integer"}}},
    "required": ["ranking"],
}


@dataclass(frozen=True)
class ListPrompt:
    SLOTS: ClassVar[tuple[str, ...]] = ("query", "passages", "count?", "keep?")

    template: Prompt
    example: RankedExample | None = None

    @classmethod
    def of(cls, template: Prompt, system: str = "", example: RankedExample | None = None) -> ListPrompt:
        """Makes a prompt; `system`, if given, replaces the system part of the template."""
        return cls(template.with_system(system) if system else template, example)

    @property
    def system(self) -> str:
        """The system part of the prompt, which meta-prompting improves."""
        return next(text for role, text in self.template.parts if role == "system").replace("$$", "$").strip()

    @property
    def schema(self) -> dict[str, Any] | None:
        """The form of the answer; None if the prompt asks for a JSON array, which no server enforces."""
        return None if any("JSON array" in text for _, text in self.template.parts) else _SCHEMA

    @property
    def examples(self) -> list[list[int]]:
        """The orders that the prompt itself shows; a model that returns one has not read the passages."""
        shown = [match for role, text in self.template.parts if role == "user" for match in _LISTED.findall(text)]
        ranked = [list(self.example.ranking)] if self.example else []
        return [[int(number) for number in re.findall(r"\d+", digits)] for digits in shown] + ranked

    @property
    def fingerprint(self) -> str:
        return hashlib.blake2b(f"{self.template.fingerprint}{self.example}".encode(), digest_size=6).hexdigest()

    def messages(self, query: str, chunks: Sequence[Chunk], keep: int, tokens: int) -> list[Message]:
        return self.over(query, shown(chunks, tokens), keep)

    def over(self, query: str, passages: Sequence[Data], keep: int) -> list[Message]:
        system, *question = self._rendered(query, passages, keep)
        if self.example is None:
            return [system, *question]
        given = [Data("passage", text, number) for number, text in enumerate(self.example.passages, 1)]
        _, *before = self._rendered(self.example.query, given, keep)
        order = list(self.example.ranking)
        answer = Message("assistant", f'{{"ranking": {order}}}' if self.schema else str(order))
        return [system, *before, answer, *question]

    def _rendered(self, query: str, passages: Sequence[Data], keep: int) -> list[Message]:
        count = len(passages)
        return self.template.messages(query=Data("query", query), passages=passages, count=count, keep=min(keep, count))


def ask_orders(
    services: Services,
    model: str | None,
    prompt: ListPrompt,
    lists: Sequence[tuple[str, Sequence[Chunk]]],
    keep: int,
    *,
    reverse: bool,
    passage_tokens: int,
    max_tokens: int,
    temperature: float | None = None,
    repeat: int = 0,
) -> list[Readings]:
    """Asks for the `keep` best of each list (query, passages); all prompts are sent together."""
    prompts: list[list[Message]] = []
    for query, chunks in lists:
        prompts.append(prompt.messages(query, chunks, keep, passage_tokens))
        if reverse:
            prompts.append(prompt.messages(query, chunks[::-1], keep, passage_tokens))
    passes = 2 if reverse else 1
    sizes = [len(chunks) for _, chunks in lists for _ in range(passes)]
    answers = ask(
        services, model, prompts, schema=prompt.schema, max_tokens=max_tokens, temperature=temperature or 0.0,
        repeat=repeat,
        usable=lambda at, answer: read_order(answer.text, sizes[at], keep) is not None,
    )  # fmt: skip
    shown = prompt.examples
    orders = [order_of(answer, size, keep, shown) for answer, size in zip(answers, sizes, strict=True)]
    for at in range(1, len(orders), 2) if reverse else ():
        backwards = orders[at]
        orders[at] = backwards if isinstance(backwards, SurefindError) else unreversed(backwards, keep)
    return [Readings(tuple(orders[at : at + passes]), keep) for at in range(0, len(orders), passes)]


def order_of(
    answer: Completion | SurefindError, count: int, keep: int, examples: Sequence[Sequence[int]] = ()
) -> list[int] | SurefindError:
    """The places of all passages in the order of an answer, repaired; or the error that says why there is none. An
    order of the prompt's `examples` is none."""
    if isinstance(answer, SurefindError):
        return answer
    order = read_order(answer.text, count, keep)
    if order is None or not order.informs or any(_copies(order.places, example) for example in examples):
        return AnswerError(NO_ORDER)
    if order.repaired:
        note(f"order repaired: {'; '.join(order.repaired)}")
    return order.places


def _copies(places: Sequence[int], example: Sequence[int]) -> bool:
    """Whether an order names the numbers of an example, as far as there are so many passages, and no other."""
    shown = [number - 1 for number in example if number <= len(places)]
    rest = list(places[len(shown) :])
    return list(places[: len(shown)]) == shown and rest == sorted(rest)
