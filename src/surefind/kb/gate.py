"""The gate between building a generation and publishing it.

A gate is called with a reader of the current generation and a reader of the next one, which no search sees yet. It
raises an error to refuse the next one. Then the writer deletes what it has built, and nothing changes for readers.
`surefind.lab.bench.gate.ExamGate` is the gate that asks the standing exam.
"""

from __future__ import annotations

from collections.abc import Callable

from surefind.engine.search.opening import Opening
from surefind.engine.search.reader import Searcher
from surefind.engine.write.writer import Writer
from surefind.kb.settings.config import Settings

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
