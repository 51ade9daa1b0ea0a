"""The methods of `KnowledgeBase` that write: each opens a `Writer`, one at a time.

The rooms behind a write are imported when it begins, because a process that only searches does not need them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from surefind.errors import NothingIndexedError, UsageError

if TYPE_CHECKING:
    from surefind.desk.store import Desk
    from surefind.kb.gate import Gate
    from surefind.prompts.values import Calls
    from surefind.protocols import OnProgress, Retriever
    from surefind.search.pipeline import Pipeline
    from surefind.services import LocalServices
    from surefind.settings.config import Settings
    from surefind.store.backend import Backend
    from surefind.store.catalogue import Catalogue
    from surefind.store.rows import Generation
    from surefind.write.intake import SyncReport
    from surefind.write.layout import Layout
    from surefind.write.reading import Reading
    from surefind.write.writer import Writer


class Writing:
    """What `KnowledgeBase` can do besides reading. It uses what `KnowledgeBase` has."""

    if TYPE_CHECKING:
        data: Path
        settings: Settings
        services: LocalServices

        @property
        def catalogue(self) -> Catalogue: ...
        @property
        def author(self) -> str: ...
        @property
        def desk(self) -> Desk: ...
        def _backend(self) -> Backend: ...
        def _check_open(self) -> None: ...
        def refresh(self) -> None: ...
        def has_cut(self, layout: Layout | None) -> bool: ...
        def missing(self, retrievers: Sequence[Retriever], layout: Layout | None = None) -> list[Retriever]: ...
        def pipeline(self, pipeline: str | Pipeline | None = None) -> Pipeline: ...

    def sync(
        self,
        *paths: str | Path,
        forget: Sequence[str | Path] = (),
        report: OnProgress | None = None,
        index: bool = True,
        revision: str = "",
        gate: Gate | None = None,
        ray: str = "",
    ) -> SyncReport:
        """Reads the files that changed below `paths` (or in every known source) and indexes them for every configured
        pipeline. `git+https://…@REVISION` names a Git repository, and so does a path with a `revision`. Sources in
        `forget` are removed. With `index=False` documents are only cut into chunks; `build` makes the indexes.
        `gate` is asked before the result is published; it is required if the settings say `gate = true`. `ray` is the
        address of a Ray cluster that prepares the files."""
        from surefind.files.git import GitOrigin, source
        from surefind.store.cache import remove
        from surefind.write.sync import sync

        retrievers = self.retrievers() if index else []
        with self._writing(report=report, gate=self._gate(gate), ray=ray, uses=retrievers) as writer:
            if not paths and not forget and not writer.catalogue.sources():
                raise NothingIndexedError("This knowledge base has no sources yet. Name a folder: surefind sync docs/.")
            wanted = [source(path, revision) for path in paths]
            made = sync(
                writer,
                retrievers,
                [path for path in wanted if isinstance(path, Path)],
                [source(path) for path in forget],
                [origin for origin in wanted if isinstance(origin, GitOrigin)],
            )
        if not ray:  # an earlier sync on a cluster may have been stopped, and what it prepared is of no more use
            remove(self._checkpoint)
        self.refresh()
        return made

    def build(
        self, *pipelines: str | Pipeline, layout: Layout | None = None, report: OnProgress | None = None
    ) -> list[str]:
        """Makes the current generation searchable by these pipelines: cuts and indexes what the layout lacks.
        Returns the names of the indexes that were built."""
        retrievers = [r for pipeline in pipelines for r in self.pipeline(pipeline).retrieve]
        return self.build_for(retrievers, layout, report)

    def build_for(
        self, retrievers: Sequence[Retriever], layout: Layout | None = None, report: OnProgress | None = None
    ) -> list[str]:
        """Does what `build` does, for retrievers. Takes the writer's lock only if something is missing."""
        if self.has_cut(layout) and not self.missing(retrievers, layout):
            return []
        return self.rebuild_for(retrievers, layout, report)

    def rebuild_for(
        self, retrievers: Sequence[Retriever], layout: Layout | None = None, report: OnProgress | None = None
    ) -> list[str]:
        """Does what `build_for` does, and rebuilds existing indexes whose checksums do not match."""
        with self._writing(layout, report) as writer:
            contents = writer.catalogue.snapshot_id()
            writer.cut(contents)
            built = writer.build(contents, retrievers)
        self.refresh()
        return built

    def compact(self, report: OnProgress | None = None) -> list[str]:
        """Merges the parts that many syncs have left in the indexes of the configured pipelines, where it is worth the
        time. The next sync uses the result; searches notice nothing. Returns the names of the merged indexes."""
        wanted = self.retrievers()
        if not self._backend().crowded(self.catalogue.snapshot_id(), str(self.settings.layout), wanted):
            return []
        with self._changing(report) as writer:
            return writer.compact(wanted)

    def rollback(self, generation: int) -> Generation:
        """Commits a new generation with the documents of an earlier one, and returns the earlier one. Nothing is
        rebuilt. The next sync takes in what the folders hold at that time."""
        with self._changing() as writer:
            earlier = writer.rollback(generation)
        self.refresh()
        return earlier

    def retire(self, document: str, report: OnProgress | None = None, gate: Gate | None = None) -> int:
        """Removes a document, but not its file. Returns the number of the new generation. `gate` is as in `sync`."""
        from surefind.write import publish

        with self._changing(report, self._gate(gate)) as writer:
            number = publish.retire(writer, document, self.retrievers())
        self.refresh()
        return number

    def changes(self, stop: Event | None = None) -> Iterator[None]:
        """Watches the sources: yields once when watching has begun, and again whenever their files have changed.
        It ends only when `stop` is set."""
        from surefind.write.watch import changes

        roots = [source.root for source in self.catalogue.sources() if not source.origin and source.root.exists()]
        if not roots:
            raise NothingIndexedError("There is no folder to watch. Name one: surefind sync docs/ --watch.")
        return changes(roots, stop)

    def sync_calls(self, *paths: str | Path) -> list[Calls]:
        """Estimates the LLM calls of a sync of these paths (or of every known source), as an upper bound. Counts the
        files that changed, or all files if the layout or an index is new."""
        from surefind.files.git import source
        from surefind.write.quote import known_files, sync_calls

        wanted = [source(path) for path in paths]
        roots = list[Path]()
        with contextlib.suppress(NothingIndexedError):  # the sync makes the catalogue
            roots = [source.root for source in self.catalogue.sources()]
        folders = [root for root in wanted or roots if isinstance(root, Path)]
        return sync_calls(
            self.settings.layout, (self.settings.files, self.settings.readers), folders,
            lambda: known_files(self.catalogue), self.has_cut(None), self.retrievers(),
            lambda retriever: bool(self.missing([retriever])),
        )  # fmt: skip

    def retrievers(self) -> list[Retriever]:
        """Returns the retrievers of every configured pipeline."""
        return [r for pipeline in self.settings.pipelines.values() for r in pipeline.retrieve]

    @contextlib.contextmanager
    def _writing(
        self,
        layout: Layout | None = None,
        report: OnProgress | None = None,
        gate: Gate | None = None,
        ray: str = "",
        uses: Sequence[Retriever] = (),
        trial: bool = False,
    ) -> Iterator[Writer]:
        """Opens a writer. With `trial`, its readers count words over what a caller may read, whatever the settings say:
        a backend elsewhere cannot."""
        from surefind.kb.gate import admission
        from surefind.store.backends.choice import backend_of
        from surefind.store.failures import explaining
        from surefind.write.reading import Reading
        from surefind.write.writer import Writer

        self._check_open()
        settings = self.settings
        reading = self._on_cluster(ray) if ray else Reading(settings.readers, settings.limits, spare=True)
        admit = admission(gate, settings) if gate else None
        isolated = settings.isolated or (trial and settings.store.backend == "local")
        writer = Writer(
            self.data, layout or settings.layout, self.services, reading, settings.files, settings.keep, report, admit,
            partial(backend_of, settings.store, isolated=isolated), uses, self.author,
        )  # fmt: skip
        with explaining(self.data), writer:
            yield writer

    def _on_cluster(self, address: str) -> Reading:
        from surefind.write.cluster import ClusterReading

        return ClusterReading(self.settings.readers, self.settings.limits, address, self._checkpoint)

    @property
    def _checkpoint(self) -> Path:
        """What a sync on a cluster has prepared, until it is done."""
        return self.data / "cache" / "prepared.db"

    def _changing(
        self, report: OnProgress | None = None, gate: Gate | None = None
    ) -> contextlib.AbstractContextManager[Writer]:
        """Opens a writer; raises `NothingIndexedError` if there is no knowledge base yet."""
        _ = self.catalogue
        return self._writing(report=report, gate=gate)

    def _gate(self, given: Gate | None) -> Gate | None:
        """Returns the given gate. Raises `UsageError` if there is none and the settings require one."""
        if given is None and self.settings.gate:
            raise UsageError(
                "surefind.toml says gate = true, and this call has no gate. Pass "
                "gate=surefind.bench.gate.ExamGate(kb), or gate=surefind.kb.gate.always_open to publish without a "
                "check."
            )
        return given
