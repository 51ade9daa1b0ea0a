"""Taking the files of a source in: what changed is read and cut, what is gone leaves, what fails is noted."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from surefind.errors import MissingPartError, SourceError
from surefind.ingest._reading import Reading, Taken
from surefind.ingest._scan import FileEntry, scan
from surefind.layout import Layout
from surefind.notes import collecting
from surefind.protocols import Reader
from surefind.services import Services
from surefind.store.catalogue import Catalogue
from surefind.store.rows import FileRow, ProblemRow, Source
from surefind.types import Document

Report = Callable[[str, int, int], None]
"""Called with (what, done, total) while a sync goes on."""

_BATCH = 200
_RACY_NS = 2_000_000_000
"""A file read this soon after it was written may have been written again within the clock's tick."""


@dataclass(frozen=True, slots=True)
class Problem:
    path: str
    reason: str


@dataclass
class SyncReport:
    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    documents: int = 0
    chunks: int = 0
    generation: int = 0
    seconds: float = 0.0
    problems: list[Problem] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    """Files of types that no reader takes, by suffix."""
    rebuilt: list[str] = field(default_factory=list)
    """Indexes that were built or brought up to date."""


@dataclass(frozen=True)
class Intake:
    catalogue: Catalogue
    layout: Layout
    services: Services
    reading: Reading
    generation: int
    exclude: Sequence[str] = ()
    report: Report = lambda what, done, total: None

    def take(self, source: Source, below: str, result: SyncReport, stale_for: str = "") -> None:
        """Bring the catalogue up to date with a source, or with the part `below` a path of it. `stale_for` is why its
        files could not be fetched again."""
        unreadable: list[str] = []
        entries = [e for e in scan(source.root, self.exclude, unreadable) if _within(e.relative, below)]
        known = {path: row for path, row in self.catalogue.files(source).items() if _within(path, below)}
        earlier = self.catalogue.problems(source)
        elsewhere = [p for p in earlier if below and not _within(p.file, below)]
        kept: dict[str, list[ProblemRow]] = {}
        for problem in earlier:
            kept.setdefault(problem.file, []).append(problem)
        problems = [_folder_problem(path) for path in unreadable]
        if stale_for:
            problems.append(ProblemRow(source.origin, stale_for, source.origin))
        stale: list[tuple[FileEntry, Reader]] = []
        for entry in entries:
            row, reader = known.get(entry.relative), self.reading.find(entry.relative)
            before = kept.get(entry.relative, [])
            if reader is None:
                result.ignored[Path(entry.relative).suffix or "no suffix"] += 1
            elif (
                row and _same(entry, row, str(reader)) and all(p.reader == self.reading.attempt(reader) for p in before)
            ):
                result.unchanged += 1
                problems += before
            elif any(_same(entry, problem, self.reading.attempt(reader)) for problem in before):
                problems += before
            else:
                stale.append((entry, reader))
        problems += self._read_all(source, stale, known, result)
        gone = known.keys() - {entry.relative for entry in entries}
        gone = {path for path in gone if not any(_within(path, folder) for folder in unreadable)}
        with self.catalogue.transaction():
            self.catalogue.remove_documents((row for path in gone for row in known[path].rows), self.generation)
            self.catalogue.set_problems(source, elsewhere + problems)
        result.removed += len(gone)
        result.problems += [Problem(problem.path, problem.reason) for problem in problems]

    def _read_all(
        self, source: Source, stale: list[tuple[FileEntry, Reader]], known: dict[str, FileRow], result: SyncReport
    ) -> Iterator[ProblemRow]:
        for at in range(0, len(stale), _BATCH):
            with self.catalogue.transaction():
                for i, (entry, reader) in enumerate(stale[at : at + _BATCH], at):
                    self.report("Reading", i, len(stale))
                    yield from self._take_file(source, entry, reader, known.get(entry.relative), result)
        if stale:
            self.report("Reading", len(stale), len(stale))

    def _take_file(
        self, source: Source, entry: FileEntry, reader: Reader, row: FileRow | None, result: SyncReport
    ) -> list[ProblemRow]:
        """Take one file in. Returns what could not be read."""
        name, attempt = printable(entry.relative), self.reading.attempt(reader)
        tried = ProblemRow(name, "", name, entry.size, entry.mtime_ns, time.time_ns(), attempt)
        try:
            digest = self._checked(entry)
            if row and digest == row.sha256 and row.reader in ("", str(reader)):
                before = [p for p in self.catalogue.problems(source) if p.file == entry.relative]
                if all(p.reader == attempt for p in before):
                    self.catalogue.touch(row, entry.size, entry.mtime_ns, tried.seen_ns)
                    result.unchanged += 1
                    return before
            taken = self.reading.read(reader, entry.path, self._id(source, entry.relative))
        except (MissingPartError, OSError) as error:  # installed or mended without a trace on the file: try each time
            return [_failure(replace(tried, size=-1), str(error), row)]
        except SourceError as error:
            return [_failure(tried, str(error), row)]
        except Exception as error:  # a reader's library met something it did not expect: this file, not the sync
            return [_failure(tried, f"cannot be read ({type(error).__name__}: {error})", row)]
        if row:
            self.catalogue.remove_documents(row.rows, self.generation)
        file = (source.id, entry.relative, entry.size, entry.mtime_ns, tried.seen_ns, digest, str(reader))
        wanting = self._add(taken.documents, file)
        result.changed += bool(row)
        result.added += not row
        complaints = _complaints(tried, taken)
        return [*complaints, replace(tried, reason=wanting, size=-1)] if wanting and not complaints else complaints

    def _checked(self, entry: FileEntry) -> str:
        """The digest of a file that may be read."""
        most = self.reading.limits.file_mb
        if entry.size > most * 1e6:
            raise SourceError(f"is larger than {most:g} MB ({entry.size / 1e6:.3g} MB)")
        if not _encodable(entry.relative):
            raise SourceError("has a name that is not UTF-8; rename it")
        return hashlib.sha256(entry.path.read_bytes()).hexdigest()

    def _add(self, documents: Sequence[Document], file: tuple[object, ...]) -> str:
        """Says what cutting had to do without, if anything."""
        layout = self.catalogue.layout(str(self.layout))
        wanting = ""
        for document in documents:
            number = self.catalogue.add_document(document, _content_hash(document), file, self.generation)
            wanting = cut(self.catalogue, self.layout, layout, document, number, self.services) or wanting
        return wanting

    def _id(self, source: Source, relative: str) -> str:
        """The path inside its source; where two sources hold the same path, the later one's name comes first."""
        id = relative
        while self.catalogue.owner_of(id, self.generation) not in (None, source.id):
            id = f"{source.name}/{id}"
        return id


def cut(catalogue: Catalogue, layout: Layout, layout_id: int, document: Document, row: int, services: Services) -> str:
    """A document's chunks into the catalogue. Where a language model did not answer, they are as they are without it,
    what was missed is returned, and the next sync takes the file in again: answers that were given are not asked for
    twice. A spent budget ends the sync, which keeps what was paid for."""
    with collecting() as heard:
        chunks = layout.cut(document, services)
    services.llm.meter.check()
    catalogue.add_chunks(layout_id, row, chunks)
    if not heard.without:
        return ""
    catalogue.distrust(row)
    return f"was indexed without all of what a model writes for it: {heard.text}; the next sync tries again"


def _same(entry: FileEntry, before: FileRow | ProblemRow, reader: str) -> bool:
    """Whether reading again would give what it gave before."""
    same = entry.size == before.size and entry.mtime_ns == before.mtime_ns
    return same and before.reader in ("", reader) and before.seen_ns - before.mtime_ns > _RACY_NS


def _folder_problem(path: str) -> ProblemRow:
    return ProblemRow(printable(path), "cannot be opened; what was indexed below it is kept", printable(path))


def _failure(tried: ProblemRow, reason: str, row: FileRow | None) -> ProblemRow:
    return replace(tried, reason=f"{reason}; the version indexed before is kept" if row else reason)


def _complaints(tried: ProblemRow, taken: Taken) -> list[ProblemRow]:
    reasons: dict[str, list[str]] = {}
    for inside, reason in taken.complaints:
        reasons.setdefault(printable(inside), []).append(reason)
    return [
        replace(tried, path=f"{tried.file}/{inside}" if inside else tried.file, reason="; ".join(dict.fromkeys(found)))
        for inside, found in reasons.items()
    ]


def _within(path: str, below: str) -> bool:
    return not below or path == below or path.startswith(f"{below}/")


def _encodable(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


def printable(path: str) -> str:
    return path.encode("utf-8", "replace").decode()


def _content_hash(document: Document) -> str:
    parts = [document.title, document.format, document.text, dict(document.metadata), document.acl]
    return hashlib.blake2b(json.dumps(parts, ensure_ascii=False, sort_keys=True).encode(), digest_size=16).hexdigest()
