"""Brings the knowledge base up to date with its sources. Only what changed is read, cut and embedded.

Watches folders and reports when files have changed and no further change has followed for a moment.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event

from surefind.base.protocols import Retriever
from surefind.engine.files.git import GitOrigin
from surefind.engine.store.rows import ProblemRow, Source
from surefind.engine.write.intake import Intake, Problem, SyncReport
from surefind.engine.write.sources import Sources
from surefind.engine.write.writer import Uncut, Writer


def sync(
    writer: Writer,
    retrievers: Sequence[Retriever],
    paths: Sequence[Path],
    forget: Sequence[Path | GitOrigin] = (),
    origins: Sequence[GitOrigin] = (),
    first: Sequence[Retriever] = (),
) -> SyncReport:
    """Syncs the named paths and origins; without any, all sources. Drops the sources in `forget`. Builds the indexes of
    `retrievers`, asks the gate, then commits the result as the next generation. Until then no reader sees any of it.
    If the others take long, only the indexes of `first` are built, and the result `waits` for the others."""
    started = time.perf_counter()
    result = SyncReport()
    catalogue = writer.catalogue
    base = writer.begin()
    sources = Sources(catalogue, writer.reading, base, writer.files, writer.report)
    dropped = sources.forgotten(forget)
    result.removed = sum(map(sources.remove_documents, dropped))
    orphans = catalogue.versions.of_no_source(base)
    catalogue.versions.release(orphans, base + 1)
    result.removed += len(orphans)
    _take_in(writer, sources, base, paths, forget, origins, dropped, result)
    changed = result.added + result.changed + result.removed
    contents = base + 1 if changed or not catalogue.generation() else catalogue.snapshot_id()
    for uncut in writer.cut(contents, skip=True):
        result.problems.append(Problem(uncut.document, uncut.reason))
        if uncut.refused:
            _record(writer, uncut)
    is_new = contents != catalogue.snapshot_id() or not catalogue.generation()
    others = [retriever for retriever in retrievers if retriever not in first]
    asks_gate = is_new and writer.gate is not None and catalogue.generation() > 0  # the exam needs every index
    if first and others and not asks_gate:
        result.rebuilt = writer.build(contents, first)
        result.waits = writer.takes_long(contents, others)
    lacked = not is_new and bool(others and writer.lacking(contents, others))
    if not result.waits:
        result.rebuilt += writer.build(contents, retrievers)
    if lacked and not result.waits:
        writer.show_again()
    if is_new:
        writer.pass_gate(contents)
        with catalogue.transaction():
            catalogue.commit(contents, writer.author)
            for source in dropped:
                catalogue.drop_source(source)
        for source in dropped:
            if source.origin:
                shutil.rmtree(source.root.parent, ignore_errors=True)
    writer.sweep()
    current = catalogue.current()
    result.generation, result.documents = (current.number, current.documents) if current else (0, 0)
    result.chunks = writer.count(contents)
    result.seconds = time.perf_counter() - started
    return result


def _record(writer: Writer, uncut: Uncut) -> None:
    """Records that a document could not be cut in the layout of this sync. Later syncs list it, and do not try again
    until its file, its reader, the limits or the layout change."""
    source, path, size, mtime_ns, _, _, reader = writer.catalogue.versions.file_of(uncut.version)
    if not source:  # a published draft has no file that a sync looks at
        return
    attempt = writer.reading.attempt(reader, str(writer.layout))
    row = ProblemRow(path, uncut.reason, path, size, mtime_ns, time.time_ns(), attempt)
    writer.catalogue.add_problem(source, row)


def _take_in(
    writer: Writer,
    sources: Sources,
    base: int,
    paths: Sequence[Path],
    forget: Sequence[Path | GitOrigin],
    origins: Sequence[GitOrigin],
    dropped: list[Source],
    result: SyncReport,
) -> None:
    """Reads the sources that the sync is about. A sync that only forgets sources reads none."""
    if not (paths or origins) and forget:
        return
    intake = Intake(
        writer.catalogue, writer.backend, writer.layout, writer.services, writer.reading, base, writer.files,
        writer.author, writer.report,
    )  # fmt: skip
    for source, below in sources.targets(paths, dropped) if paths or not origins else ():
        stale_for = sources.fetched_again(source)
        scanned = intake.scan(source, below, sources.read_elsewhere(source, dropped))
        intake.take(source, below, result, scanned, stale_for)
    for origin in origins:
        fetched = sources.fetched(origin)
        intake.take(fetched, "", result, intake.scan(fetched))


_QUIET_MS = 300
"""Milliseconds without a change after which changes are reported."""


def changes(roots: Sequence[Path], stop: Event | None = None) -> Iterator[None]:
    """Yields once when watching has begun (files may have changed before), and again whenever files have changed and no
    further change has followed for a moment. It ends only when `stop` is set."""
    from watchfiles import watch

    def matters(_: object, path: str) -> bool:  # every sync writes the data folder, which may lie in a source
        below = next((Path(path).relative_to(root) for root in roots if root in Path(path).parents), Path())
        return not any(step.startswith(".") for step in below.parts)

    begun = False
    for changed in watch(
        *roots,
        watch_filter=matters,
        debounce=10 * _QUIET_MS,
        step=_QUIET_MS,
        rust_timeout=_QUIET_MS,
        yield_on_timeout=True,
        stop_event=stop,
    ):
        if changed or not begun:
            yield
        begun = True
