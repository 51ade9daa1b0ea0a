"""Cuts documents into chunks: in child processes under limits, or here if the layout needs a service."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from surefind.base.errors import SourceError
from surefind.base.protocols import Services
from surefind.base.running.notes import collecting
from surefind.base.types import Chunk, Document
from surefind.engine.write.layout import Layout
from surefind.engine.write.reading import Reading

_BATCH = 200
"""Documents or files that are committed in one transaction, at most."""
_BATCH_BYTES = 20e6
"""Bytes of documents or files after which a batch ends: it is held in memory."""
Item = TypeVar("Item")


@dataclass(frozen=True)
class Cut:
    """The result of cutting a document."""

    document: str
    """The document's id."""
    size: int
    """The number of characters of its text."""
    chunks: list[Chunk]
    missed: str = ""
    """Why answers of a language model are missing; the chunks were made without them."""
    refused: str = ""
    """Why there are no chunks: the document exceeds a limit."""


def cut_each(
    layout: Layout, documents: Iterable[Document], count: int, reading: Reading, services: Services
) -> Iterator[Cut]:
    """Cuts `count` documents, in order. A document that exceeds a limit is refused, and the others are cut."""
    if not layout.text_only:
        for document in documents:
            chunks, missed = cut_here(layout, document, services)
            yield Cut(document.id, len(document.text), chunks, missed)
        return
    text = str(layout)

    def apart(document: Document) -> Cut:
        try:
            return Cut(document.id, len(document.text), reading.cut(document, text))
        except SourceError as error:
            return Cut(document.id, len(document.text), [], refused=str(error))

    yield from reading.each(apart, documents, count, lambda document: len(document.text))


def cut_here(layout: Layout, document: Document, services: Services) -> tuple[list[Chunk], str]:
    """Cuts a document in this process, with stages that may use services. Returns its chunks and, if a language model
    failed, why.

    If a model did not answer, the chunks are made without its answer, and the next sync reads the file again. Answers
    are cached and never paid for twice. If the budget is spent, `BudgetError` ends the sync.
    """
    with collecting() as notes:
        chunks = layout.cut(document, services)
    services.meter.check()
    if not notes.without:
        return chunks, ""
    return chunks, f"was indexed without some answers of a language model: {notes.text}; the next sync tries again"


def batches(items: Iterable[Item], size: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Yields the items in batches, which are limited in number and in bytes."""
    batch: list[Item] = []
    held = 0
    for item in items:
        batch.append(item)
        held += size(item)
        if len(batch) == _BATCH or held >= _BATCH_BYTES:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch
