"""Merges the parts of large indexes while others read and write.

The merge reads a generation on which it holds a lease, and writes beside the indexes. It holds the writer's lock only
while its result is taken in. A merge that was killed leaves files that the next writer deletes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial

from surefind.base.protocols import OnProgress, Retriever, Services
from surefind.engine.store.backend import Backend, Contents, Merged
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.lock import merging_lock, patiently
from surefind.engine.write.writer import Writer, both

_WAIT_SECONDS = 600.0
"""How long a merge waits for a writer to end. After that its result is lost, and the next merge begins again."""


def merge(
    catalogue: Catalogue,
    backend: Backend,
    layout: str,
    retrievers: Sequence[Retriever],
    services: Services,
    writer: Callable[[], AbstractContextManager[Writer]],
    report: OnProgress | None = None,
) -> list[str]:
    """Merges the parts of the current indexes of these retrievers, where it is worth the time. `writer` opens the
    writer. Returns the names of the merged indexes. Raises `LockedError` if another process merges."""
    merged = []
    for retriever in backend.crowded(catalogue.snapshot_id(), layout, retrievers, services):
        with merging_lock(catalogue.path.parent) as note:
            generation, held = catalogue.leased()
            with held:
                number = generation.contents
                if not backend.crowded(number, layout, [retriever], services):
                    continue  # another process has merged it, or written another index
                contents = Contents(number, partial(catalogue.members, number), catalogue.digest(number))
                progress = both(note, report) if report else note
                made = backend.merge(contents, layout, retriever, services, progress)
                if made and patiently(partial(_take, writer, layout, made), _WAIT_SECONDS):
                    merged.append(retriever.name)
    return merged


def _take(writer: Callable[[], AbstractContextManager[Writer]], layout: str, merged: Merged) -> bool:
    with writer() as current:
        contents = current.contents(current.catalogue.snapshot_id())
        return current.backend.take_merged(contents, layout, merged, current.services)
