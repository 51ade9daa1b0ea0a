"""`whole`: makes each document one chunk. For collections whose documents are passages already (BEIR, FAQs)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefind.base.protocols import Services
from surefind.base.spec import Stage
from surefind.base.types import Chunk, Document
from surefind.engine.chunk._pieces import make_chunk


@dataclass(frozen=True)
class Whole(Stage):
    kind: ClassVar[str] = "chunk"
    name: ClassVar[str] = "whole"
    text_only: ClassVar[bool] = True

    def chunk(self, document: Document, services: Services) -> list[Chunk]:
        return [make_chunk(document, 0, len(document.text))] if document.text.strip() else []
