"""`plain`: words and identifiers in lower case, whole and unstemmed, with no stop words removed. For exact matching."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefind.base.spec import Stage
from surefind.engine.analyze.auto import raw_tokens, terms_of


@dataclass(frozen=True)
class Plain(Stage):
    kind: ClassVar[str] = "analyze"
    name: ClassVar[str] = "plain"

    def tokens(self, text: str) -> list[str]:
        return raw_tokens(text)

    def terms(self, token: str) -> tuple[str, ...]:
        return terms_of(token, lambda word: (word.lower(),))
