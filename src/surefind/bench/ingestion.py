"""What it takes to bring documents in with a layout: cutting, embedding, indexing from nothing, on a sample of text."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from surefind.protocols import Retriever, Services
from surefind.services import LocalServices
from surefind.store.needs import needed
from surefind.types import Document
from surefind.write.layout import Layout
from surefind.write.quote import offline

SAMPLE = 40_000
"""Characters that are timed for a report."""
PROBE = 8_000
"""Characters that are timed for a quote."""
_FROM = 10
_WARM = Document(
    "warm-up", "The first text compiles kernels and loads models.\n\nThe second one is not slowed down by it."
)


def seconds_per_character(
    documents: Sequence[Document], layout: Layout, retrievers: Iterable[Retriever], characters: int = SAMPLE
) -> float:
    """Without any cache: what was computed before for another layout does not make this one look cheap. And without
    what a language model does, which is quoted in calls."""
    layout = layout.offline()
    taken = sample(documents, characters)
    services = LocalServices()
    wanted = needed(offline(r) for r in retrievers)
    _take_in([_WARM], layout, wanted, services)
    started = time.perf_counter()
    _take_in(taken, layout, wanted, services)
    return (time.perf_counter() - started) / max(1, sum(len(document.text) for document in taken))


def sample(documents: Sequence[Document], characters: int) -> list[Document]:
    """Documents from all over, whole until they have so many characters: how long texts are decides what some layouts
    cost."""
    taken: list[Document] = []
    left = characters
    for document in documents[:: max(1, len(documents) // _FROM)]:
        if left > 0:
            taken.append(replace(document, text=document.text[:left]))
            left -= len(document.text)
    return taken


def _take_in(
    documents: Sequence[Document], layout: Layout, retrievers: Sequence[Retriever], services: Services
) -> None:
    chunks = [chunk for document in documents for chunk in layout.cut(document, services)]
    for retriever in retrievers:
        retriever.build(chunks, services)
