"""A layout: a chunker and enrichers, which turn documents into chunks. Its text form: `markdown(…) + headings`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from surefind.base import spec
from surefind.base.abilities import asks_llm, declared
from surefind.base.protocols import Chunker, Enricher, Services
from surefind.base.spec import split_outside
from surefind.base.text.languages import in_languages
from surefind.base.types import Chunk, Document


@dataclass(frozen=True)
class Layout:
    """A chunker and enrichers: how documents become chunks."""

    chunk: Chunker
    enrich: tuple[Enricher, ...] = ()

    @classmethod
    def parse(cls, chunk: str, enrich: Sequence[str] = ()) -> Layout:
        """Builds a layout from the specs of its stages."""
        return cls(
            cast(Chunker, spec.make("chunk", chunk)),
            tuple(cast(Enricher, spec.make("enrich", text)) for text in enrich),
        )

    @classmethod
    def read(cls, text: str) -> Layout:
        """Reads a layout from its text form: a chunker, then enrichers."""
        chunk, *enrich = split_outside(text, "+")
        return cls.parse(chunk, enrich)

    def __str__(self) -> str:
        return " + ".join(map(str, (self.chunk, *self.enrich)))

    @property
    def text_only(self) -> bool:
        """Whether all stages need nothing but the document, so that it can cut in a child process."""
        return all(declared(stage).text_only for stage in (self.chunk, *self.enrich))

    @property
    def asks_llm(self) -> bool:
        """Whether cutting a document may ask a language model."""
        return asks_llm((self.chunk, *self.enrich))

    def offline(self) -> Layout:
        """Returns the layout without language models, for timing it free of charge: a chunker that asks one is replaced
        by its fallback, and enrichers that ask one are left out."""
        chunk = self.chunk
        if asks_llm([chunk]):
            chunk = cast(Chunker, spec.make("chunk", declared(chunk).base))
        return Layout(chunk, tuple(enricher for enricher in self.enrich if not asks_llm([enricher])))

    def cut(self, document: Document, services: Services) -> list[Chunk]:
        """Cuts a document into chunks and enriches them."""
        chunks = self.chunk.chunk(document, services)
        for enricher in self.enrich:
            chunks = enricher.enrich(document, chunks, services)
        return in_languages(document, chunks)
