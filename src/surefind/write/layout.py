"""How documents become searchable chunks: a chunker, then enrichers. Its text form: `markdown(…) + headings`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from surefind import spec
from surefind.abilities import Falling, TextOnly
from surefind.grammar import split_outside
from surefind.protocols import Chunker, Enricher, Priced, Services
from surefind.types import Chunk, Document


@dataclass(frozen=True)
class Layout:
    chunk: Chunker
    enrich: tuple[Enricher, ...] = ()

    @classmethod
    def parse(cls, chunk: str, enrich: Sequence[str] = ()) -> Layout:
        return cls(
            cast(Chunker, spec.make("chunk", chunk)),
            tuple(cast(Enricher, spec.make("enrich", text)) for text in enrich),
        )

    @classmethod
    def read(cls, text: str) -> Layout:
        """`markdown(…) + headings` -> the layout: a chunker, then enrichers."""
        chunk, *enrich = split_outside(text, "+")
        return cls.parse(chunk, enrich)

    def __str__(self) -> str:
        return " + ".join(map(str, (self.chunk, *self.enrich)))

    @property
    def text_only(self) -> bool:
        """Whether its chunks follow from the document alone, so that it can cut in a process of its own."""
        return all(isinstance(stage, TextOnly) and stage.text_only for stage in (self.chunk, *self.enrich))

    def offline(self) -> Layout:
        """The same without what a language model does: for timing, which must cost nothing."""
        chunk = self.chunk
        if isinstance(chunk, Priced):
            chunk = cast(Chunker, spec.make("chunk", chunk.base if isinstance(chunk, Falling) else "markdown"))
        return Layout(chunk, tuple(enricher for enricher in self.enrich if not isinstance(enricher, Priced)))

    def cut(self, document: Document, services: Services) -> list[Chunk]:
        chunks = self.chunk.chunk(document, services)
        for enricher in self.enrich:
            chunks = enricher.enrich(document, chunks, services)
        return chunks
