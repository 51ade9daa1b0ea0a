"""Opens the writer of a knowledge base, for the methods of `KnowledgeBase` that write and for publishing drafts.

The rooms behind a write are imported when it begins, because a process that only searches does not need them.

The gate between building a generation and publishing it.

A gate is called with a reader of the current generation and a reader of the next one, which no search sees yet. It
raises an error to refuse the next one. Then the writer deletes what it has built, and nothing changes for readers.
`surefind.lab.bench.gate.ExamGate` is the gate that asks the standing exam.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from surefind.base.errors import UsageError
from surefind.engine.search.reader import Opening, Searcher
from surefind.engine.write.writer import Writer
from surefind.kb.settings.config import Settings, keep_base

if TYPE_CHECKING:
    from surefind.base.protocols import OnProgress
    from surefind.engine.write.layout import Layout
    from surefind.engine.write.preparing import FilePreparer
    from surefind.kb.shared import Shared


class Writers:
    """Opens writers, one at a time. The next search sees what they have committed."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    @contextlib.contextmanager
    def open(
        self,
        layout: Layout | None = None,
        report: OnProgress | None = None,
        gate: Gate | None = None,
        ray: str = "",
        trial: bool = False,
    ) -> Iterator[Writer]:
        """Opens a writer. A `trial` commits nothing, and its readers count words over what a caller may read, whatever
        the settings say: a backend elsewhere cannot."""
        from surefind.engine.store.database import explaining
        from surefind.engine.write.writer import Writer

        shared, settings = self._shared, self._shared.settings
        shared.check_open()
        if settings.auto and not shared.exists and not trial:
            keep_base(shared.data, settings.base)
        admit = admission(gate, settings) if gate else None
        isolated = settings.isolated or (trial and settings.store.backend == "local")
        writer = Writer(
            shared.data, layout or settings.layout, shared.services, self._reading(ray), settings.files, settings.keep,
            report, admit, partial(shared.backend_on, isolated=isolated), shared.author,
        )  # fmt: skip
        with explaining(shared.data), writer:
            yield writer
        if not trial:
            shared.refresh()

    def change(
        self, report: OnProgress | None = None, gate: Gate | None = None
    ) -> contextlib.AbstractContextManager[Writer]:
        """Opens a writer; raises `NothingIndexedError` if there is no knowledge base yet."""
        _ = self._shared.catalogue
        return self.open(report=report, gate=gate)

    def gate(self, given: Gate | None) -> Gate | None:
        """Returns the given gate. Raises `UsageError` if there is none and the settings require one."""
        if given is None and self._shared.settings.gate:
            raise UsageError(
                "surefind.toml says gate = true, and this call has no gate. Pass "
                "gate=surefind.lab.bench.gate.ExamGate(kb), or gate=surefind.kb.writing.always_open to publish without "
                "a check."
            )
        return given

    @property
    def checkpoint(self) -> Path:
        """What a sync on a cluster has prepared, until it is done."""
        return self._shared.data / "cache" / "prepared.db"

    def _reading(self, ray: str) -> FilePreparer:
        from surefind.engine.write.preparing import FilePreparer

        settings = self._shared.settings
        if not ray:
            return FilePreparer(settings.readers, settings.limits, spare=True)
        from surefind.engine.write.cluster import ClusterPreparer

        return ClusterPreparer(settings.readers, settings.limits, ray, self.checkpoint)


Gate = Callable[[Searcher, Searcher], None]


def always_open(before: Searcher, after: Searcher) -> None:
    """Lets every generation pass."""


def admission(gate: Gate, settings: Settings) -> Callable[[Writer, int], None]:
    """Returns the gate as a writer calls it, with the writer and the number of the new set of documents."""

    def admit(writer: Writer, contents: int) -> None:
        current = writer.catalogue.current()
        if current is None or gate is always_open:
            return
        retrievers = settings.named(settings.pipeline).retrieve
        for snapshot in (current.contents, contents):  # the current set lacks an index if the settings have changed
            writer.cut(snapshot)
            writer.build(snapshot, retrievers)
        layout = str(writer.layout)
        opening = Opening(writer.catalogue, writer.backend, layout, writer.services, settings.access, retrievers)
        gate(opening.kept(current.number), opening.unpublished(contents))

    return admit
