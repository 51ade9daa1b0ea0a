"""Taking the files of a source in: what changed is prepared and committed, what is gone leaves, what fails is noted."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, count, islice
from pathlib import Path

from surefind.errors import MissingPartError, SourceError
from surefind.files.git import left_out
from surefind.files.opening import read_bytes
from surefind.files.scan import FileEntry, FileRules, Missed, is_ignored, scan
from surefind.notes import collecting
from surefind.protocols import OnProgress, Reader, Services
from surefind.store.backend import Backend, Delta
from surefind.store.catalogue import Catalogue
from surefind.store.rows import FileRow, ProblemRow, Source
from surefind.types import Chunk, Document
from surefind.write.layout import Layout
from surefind.write.prepare import Prepared
from surefind.write.reading import Reading

BATCH = 200
"""Files that are committed together."""
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
    skipped: list[Problem] = field(default_factory=list)
    """Links that were not followed, pipes, sockets and devices."""
    aliases: int = 0
    """Links to files and folders that are read under their own name."""
    rebuilt: list[str] = field(default_factory=list)
    """Indexes that were built or brought up to date."""


@dataclass(frozen=True)
class _File:
    """A file that may have changed, with what is known of it."""

    entry: FileEntry
    reader: Reader
    id: str
    row: FileRow | None
    before: list[ProblemRow]


@dataclass(frozen=True)
class _Outcome:
    """What preparing a file came to: documents, or that it is the same as before, or why it cannot be read."""

    file: _File
    tried: ProblemRow
    digest: str = ""
    prepared: Prepared | None = None
    failure: ProblemRow | None = None


@dataclass(frozen=True)
class Intake:
    catalogue: Catalogue
    backend: Backend
    layout: Layout
    services: Services
    reading: Reading
    base: int
    """The set of documents that is there; what is taken in belongs to the one after it."""
    files: FileRules = field(default_factory=FileRules)
    author: str = ""
    report: OnProgress = lambda what, done, total: None

    def take(
        self, source: Source, below: str, result: SyncReport, stale_for: str = "", elsewhere: Set[str] = frozenset()
    ) -> None:
        """Bring the catalogue up to date with a source, or with the part `below` a path of it. `stale_for` is why its
        files could not be fetched again, `elsewhere` what other sources read."""
        missed = Missed()
        found = scan(source.root, self.files, self.reading.find, missed, elsewhere)
        entries = [entry for entry in found if _within(entry.relative, below)]
        if source.origin:
            self._note_left_out(source, missed, result)
        known = {p: row for p, row in self.catalogue.files(source, self.base).items() if _within(p, below)}
        earlier = self.catalogue.problems(source)
        others = [p for p in earlier if below and not _within(p.file, below)]
        kept: dict[str, list[ProblemRow]] = {}
        for problem in earlier:
            kept.setdefault(problem.file, []).append(problem)
        problems = [_folder_problem(path) for path in missed.unreadable]
        if stale_for:
            problems.append(ProblemRow(source.origin, stale_for, source.origin))
        stale: list[_File] = []
        for entry in entries:
            row, reader = known.get(entry.relative), self.reading.find(entry.relative)
            before = kept.get(entry.relative, [])
            if reader is None:
                result.ignored[type_of(entry.relative)] += 1
            elif (
                row and _same(entry, row, str(reader)) and all(p.reader == self.reading.attempt(reader) for p in before)
            ):
                result.unchanged += 1
                problems += before
            elif any(_same(entry, problem, self.reading.attempt(reader)) for problem in before):
                problems += before
            else:
                stale.append(_File(entry, reader, self._id(source, printable(entry.relative)), row, before))
        problems += self._take_all(source, stale, result)
        gone = known.keys() - {entry.relative for entry in entries}
        gone = {path for path in gone if not any(_within(path, folder) for folder in missed.unreadable)}
        skipped = [_skipped(path, reason) for path, reason in missed.skipped if _within(path, below)]
        with self.catalogue.transaction():
            self.catalogue.versions.release((row for path in gone for row in known[path].rows), self.base + 1)
            self.catalogue.set_problems(source, others + problems + skipped)
        result.removed += len(gone)
        result.aliases += missed.aliases
        result.skipped += [Problem(row.path, row.reason) for row in skipped]
        result.problems += [Problem(problem.path, problem.reason) for problem in problems]

    def _note_left_out(self, source: Source, missed: Missed, result: SyncReport) -> None:
        """What a repository holds and a scan cannot come across, because it was not laid out."""
        for name, target in left_out(source.root.parent):
            if is_ignored(name, self.files.exclude):
                continue
            if target:
                missed.skipped.append((name, f"is a link to {target}; links in a repository are not followed"))
            elif self.reading.find(name):
                missed.skipped.append((name, f"is larger than {self.reading.limits.file_mb:g} MB (max_file_mb)"))
            else:
                result.ignored[type_of(name)] += 1

    def _take_all(self, source: Source, stale: list[_File], result: SyncReport) -> Iterator[ProblemRow]:
        """Files are prepared side by side and outside any transaction; committing a batch of them is short."""
        done = 0
        outcomes = self.reading.each(partial(self._prepared, self._cuts_apart), stale)
        while batch := [self._cut(outcome) for outcome in islice(self._told(outcomes, done, len(stale)), BATCH)]:
            with self.catalogue.transaction():
                for outcome, chunks, wanting in batch:
                    yield from self._commit(source, outcome, chunks, wanting, result)
            done += len(batch)
        if stale:
            self.report("Reading", len(stale), len(stale))

    def _told(self, outcomes: Iterator[_Outcome], done: int, total: int) -> Iterator[_Outcome]:
        for number, outcome in enumerate(outcomes, done):
            self.report("Reading", number, total)
            yield outcome

    @property
    def _cuts_apart(self) -> str:
        """The layout, where it cuts beside reading; empty where it asks a service, which only this process has."""
        return str(self.layout) if self.layout.text_only else ""

    def _prepared(self, layout: str, file: _File) -> _Outcome:
        """Without a look at the catalogue, so that threads can do it."""
        name, attempt = printable(file.entry.relative), self.reading.attempt(file.reader)
        tried = ProblemRow(name, "", name, file.entry.size, file.entry.mtime_ns, time.time_ns(), attempt)
        try:
            digest = self._checked(file.entry)
            row = file.row
            same = row is not None and digest == row.sha256 and row.reader in ("", str(file.reader))
            if same and all(p.reader == attempt for p in file.before):
                return _Outcome(file, tried, digest)
            prepared = self.reading.read(file.reader, file.entry.path, file.id, layout, file.entry.real)
            return _Outcome(file, tried, digest, prepared)
        except (MissingPartError, OSError) as error:  # put right without a trace on the file: try each time
            return _Outcome(file, tried, failure=_failure(replace(tried, size=-1), str(error), file.row))
        except SourceError as error:
            return _Outcome(file, tried, failure=_failure(tried, str(error), file.row))
        except Exception as error:  # a reader's library met something it did not expect: this file, not the sync
            reason = f"cannot be read ({type(error).__name__}: {error})"
            return _Outcome(file, tried, failure=_failure(tried, reason, file.row))

    def _cut(self, outcome: _Outcome) -> tuple[_Outcome, list[list[Chunk]], str]:
        """The chunks of each document, cut here where they were not cut beside reading, and what a model failed at."""
        prepared = outcome.prepared
        if prepared is None or prepared.chunks or not prepared.documents:
            return outcome, prepared.chunks if prepared else [], ""
        made = [cut(self.layout, document, self.services) for document in prepared.documents]
        return outcome, [chunks for chunks, _ in made], next((wanting for _, wanting in made if wanting), "")

    def _commit(
        self, source: Source, outcome: _Outcome, chunks: list[list[Chunk]], wanting: str, result: SyncReport
    ) -> list[ProblemRow]:
        """Take one prepared file in. Returns what could not be read of it."""
        file, tried, prepared = outcome.file, outcome.tried, outcome.prepared
        if outcome.failure:
            return [outcome.failure]
        if prepared is None:
            if file.row:
                self.catalogue.versions.touch(file.row, file.entry.size, file.entry.mtime_ns, tried.seen_ns)
            result.unchanged += 1
            return file.before
        if file.row:
            self.catalogue.versions.release(file.row.rows, self.base + 1)
        entry = file.entry
        about = (source.id, entry.relative, entry.size, entry.mtime_ns, tried.seen_ns, outcome.digest, str(file.reader))
        for document, pieces in zip(prepared.documents, chunks, strict=True):
            self._add(source, entry.relative, document, pieces, about, bool(wanting))
        result.changed += bool(file.row)
        result.added += not file.row
        complaints = _complaints(tried, prepared)
        return [*complaints, replace(tried, reason=wanting, size=-1)] if wanting and not complaints else complaints

    def _add(
        self,
        source: Source,
        path: str,
        document: Document,
        chunks: list[Chunk],
        about: tuple[object, ...],
        wanting: bool,
    ) -> None:
        id = self._free(document.id, source, path)
        if id != document.id:
            document, chunks = replace(document, id=id), [replace(chunk, document=id) for chunk in chunks]
        version = self.catalogue.versions.add(
            document, content_hash(document), about, self.base + 1, author=self.author
        )
        self.backend.write([Delta(str(self.layout), version, chunks)])
        if wanting:
            self.catalogue.versions.distrust(version)

    def _checked(self, entry: FileEntry) -> str:
        """The digest of a file that may be read."""
        most = self.reading.limits.file_mb
        if entry.size > most * 1e6:
            raise SourceError(f"is larger than {most:g} MB ({entry.size / 1e6:.3g} MB)")
        if not _encodable(entry.relative):
            raise SourceError("has a name that is not UTF-8; rename it")
        return hashlib.sha256(read_bytes(entry.path, entry.real)).hexdigest()

    def _id(self, source: Source, relative: str) -> str:
        """The path inside its source; where two sources hold the same path, the later one's name comes first."""
        id = relative
        while (owner := self.catalogue.versions.owner_of(id, self.base + 1)) and owner[0] != source.id:
            id = f"{source.name}/{id}"
        return id

    def _free(self, id: str, source: Source, path: str) -> str:
        """An id that no other document has: records carry ids of their own, and two collections, or two records of one
        file, may have the same. The later one's source comes first then, or its file; within a file it is numbered."""
        owner = self.catalogue.versions.owner_of(id, self.base + 1)
        if owner is None:
            return id
        numbered = (f"{id}#{number}" for number in count(2))
        named = (f"{source.name}/{id}", f"{source.name}/{path}/{id}") if owner != (source.id, path) else ()
        names = chain(named, numbered)
        return next(name for name in names if self.catalogue.versions.owner_of(name, self.base + 1) is None)


def cut(layout: Layout, document: Document, services: Services) -> tuple[list[Chunk], str]:
    """A document's chunks, by stages that may ask a service. Where a language model did not answer, they are as they
    are without it, what was missed is returned, and the next sync takes the file in again: answers that were given are
    not asked for twice. A spent budget ends the sync, which keeps what was paid for."""
    with collecting() as heard:
        chunks = layout.cut(document, services)
    services.meter.check()
    if not heard.without:
        return chunks, ""
    return chunks, f"was indexed without all of what a model writes for it: {heard.text}; the next sync tries again"


def _same(entry: FileEntry, before: FileRow | ProblemRow, reader: str) -> bool:
    """Whether reading again would give what it gave before."""
    same = entry.size == before.size and entry.mtime_ns == before.mtime_ns
    return same and before.reader in ("", reader) and before.seen_ns - before.mtime_ns > _RACY_NS


def _folder_problem(path: str) -> ProblemRow:
    return ProblemRow(printable(path), "cannot be opened; what was indexed below it is kept", printable(path))


def _skipped(path: str, reason: str) -> ProblemRow:
    return ProblemRow(printable(path), printable(reason), printable(path))


def _failure(tried: ProblemRow, reason: str, row: FileRow | None) -> ProblemRow:
    return replace(tried, reason=f"{reason}; the version indexed before is kept" if row else reason)


def _complaints(tried: ProblemRow, taken: Prepared) -> list[ProblemRow]:
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


def type_of(path: str) -> str:
    """The type that a file is counted under where no reader takes it."""
    return printable(Path(path).suffix.lower()) or "no suffix"


def printable(path: str) -> str:
    return path.encode("utf-8", "replace").decode()


def content_hash(document: Document) -> str:
    parts = [document.title, document.format, document.text, dict(document.metadata), document.acl]
    return hashlib.blake2b(json.dumps(parts, ensure_ascii=False, sort_keys=True).encode(), digest_size=16).hexdigest()
