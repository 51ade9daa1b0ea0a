"""`headings`: adds the path of headings above a chunk, `CTR filing > Deadlines > Holidays`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from surefind.base.protocols import Services
from surefind.base.spec import Stage
from surefind.base.types import Chunk, Document


@dataclass(frozen=True)
class Headings(Stage):
    kind: ClassVar[str] = "enrich"
    name: ClassVar[str] = "headings"
    text_only: ClassVar[bool] = True

    def enrich(self, document: Document, chunks: list[Chunk], services: Services) -> list[Chunk]:
        return [replace(chunk, context=_join(chunk.context, breadcrumb(document, chunk))) for chunk in chunks]


def breadcrumb(document: Document, chunk: Chunk) -> str:
    # Leave out a heading that repeats the title: it would only count the title's words twice.
    steps = [document.title, *(h for h in chunk.headings if h != document.title)]
    return " > ".join(step for step in steps if step)


def _join(before: str, added: str) -> str:
    return f"{before}\n{added}".strip()
