"""`whole`: makes each document one chunk. For collections whose documents are passages already (BEIR, FAQs)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefind.chunk._spans import make_chunk
from surefind.protocols import Services
from surefind.spec import Stage
from surefind.types import Chunk, Document


@dataclass(frozen=True)
class Whole(Stage):
    kind: ClassVar[str] = "chunk"
    name: ClassVar[str] = "whole"
    text_only: ClassVar[bool] = True

    def chunk(self, document: Document, services: Services) -> list[Chunk]:
        return [make_chunk(document, 0, len(document.text))] if document.text.strip() else []
