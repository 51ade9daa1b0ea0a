"""Times ingestion with a layout (cutting, embedding and indexing with an empty cache) on a sample of the text."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from surefind.base.protocols import Retriever, Services
from surefind.base.types import Document
from surefind.engine.services import LocalServices
from surefind.engine.store.needs import needed
from surefind.engine.write.layout import Layout
from surefind.engine.write.quote import offline

SAMPLE = 40_000
"""Characters of text that are timed for a report."""
PROBE = 8_000
"""Characters of text that are timed for a cost estimate: fewer, because the user waits for it."""
_FROM = 10
"""Documents that a sample is taken from, about."""
_WARM = Document(
    "warm-up", "The first text compiles kernels and loads models.\n\nThe second one is not slowed down by it."
)


def seconds_per_character(
    documents: Sequence[Document],
    layout: Layout,
    retrievers: Iterable[Retriever],
    folder: Path,
    characters: int = SAMPLE,
) -> float:
    """Seconds per character of text to cut, embed and index documents. Paths in specs are relative to `folder`.

    No cache is used, so that work done earlier for another layout does not make this one look cheap. Work of language
    models is left out: it is estimated in calls.
    """
    layout = layout.offline()
    taken = sample(documents, characters)
    services = LocalServices(folder=folder)
    wanted = needed((offline(r) for r in retrievers), services)
    _ingest([_WARM], layout, wanted, services)
    started = time.perf_counter()
    _ingest(taken, layout, wanted, services)
    return (time.perf_counter() - started) / max(1, sum(len(document.text) for document in taken))


def sample(documents: Sequence[Document], characters: int) -> list[Document]:
    """Documents spread evenly over the collection, up to `characters` in all. Only the last one is cut, because the
    cost of some layouts depends on the length of a document."""
    taken: list[Document] = []
    left = characters
    for document in documents[:: max(1, len(documents) // _FROM)]:
        if left > 0:
            taken.append(replace(document, text=document.text[:left]))
            left -= len(document.text)
    return taken


def _ingest(documents: Sequence[Document], layout: Layout, retrievers: Sequence[Retriever], services: Services) -> None:
    chunks = [chunk for document in documents for chunk in layout.cut(document, services)]
    for retriever in retrievers:
        retriever.build(chunks, services)
