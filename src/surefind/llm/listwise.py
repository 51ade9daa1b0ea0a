"""Builds the prompt of a listwise reranker: instructions, an example if there is one, and the passages."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from surefind.llm.permutation import shown
from surefind.llm.trained import RankedExample
from surefind.prompts.fence import Data
from surefind.prompts.prompt import Prompt
from surefind.prompts.values import Message
from surefind.types import Chunk

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
