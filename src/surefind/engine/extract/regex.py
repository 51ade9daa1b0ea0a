"""`regex`: extracts capitalised phrases and numbers, by the two patterns of the cascade study.

"Deliberately lightweight: the goal is fast entity signal, not NLP-quality extraction." A capitalised word at the start
of a sentence counts like any other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from surefind.base.protocols import Progress, Services
from surefind.base.spec import Stage
from surefind.base.text.words import spaced
from surefind.base.types import Extraction, Mention

_CAPITALISED = re.compile(r"\b[A-Z][\w&'-]*(?:[ ][A-Z][\w&'-]*)*")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*%?(?!\w)")


@dataclass(frozen=True)
class Regex(Stage):
    kind: ClassVar[str] = "extract"
    name: ClassVar[str] = "regex"

    def extract(self, texts: Sequence[str], services: Services, progress: Progress | None = None) -> list[Extraction]:
        return [Extraction(tuple(Mention(name, 0) for name in _names(text))) for text in texts]


def _names(text: str) -> list[str]:
    text = spaced(text)
    return [*_CAPITALISED.findall(text), *_NUMBER.findall(text)]
