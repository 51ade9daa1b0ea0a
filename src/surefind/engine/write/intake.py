"""Takes in the files of a source: prepares and commits what changed, removes what is gone, and records failures.

Compares the files that a scan found with what was recorded when they were read.

Nearly all files are as they were. For each of them a sync compares one tuple and makes no object.

Decides whether the earlier version of a changed file that cannot be read stays searchable.

Gives documents ids that no other document of the set has.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, count
from pathlib import Path

from surefind.base.errors import MissingPartError, SourceError
from surefind.base.names import one_spelling, record_name, wrong_name
from surefind.base.protocols import OnProgress, Reader, Services
from surefind.base.types import Chunk, Document
from surefind.engine.files.git import left_out
from surefind.engine.files.inside import LOOKS_RESTRICTED, may_restrict
from surefind.engine.files.opening import read_bytes
from surefind.engine.files.scan import FileEntry, FileRules, Missed, Scanned, is_ignored
from surefind.engine.store.backend import Backend, Delta
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.versions import Facts, FileRow, ProblemRow, Source, Versions, content_hash
from surefind.engine.write.layout import Layout
from surefind.engine.write.prepare import Prepared
from surefind.engine.write.preparing import FilePreparer, batches, cut_here

KEPT_NOTE = "; the version indexed before is kept"
_WITHDRAWN = "; the version indexed before was withdrawn, because the new one may restrict who reads it"
_MAX_SEARCHED_BYTES = 100_000_000
"""Bytes of a file up to which it is searched for an access list."""


def withdraw(versions: Versions, entry: FileEntry, row: FileRow | None, contents: int) -> bool:
    """Removes the earlier version of a file that could not be read from the set `contents`, if the new one may restrict
    its readers. Returns whether it did."""
    if row is None or not _may_restrict(entry, row):
        return False
    versions.release(row.rows, contents)
    return True


def _may_restrict(entry: FileEntry, row: FileRow) -> bool:
    """Returns whether a file has changed and may contain an access list. If it cannot even be opened, nothing is known
    about it, and its earlier version stays."""
    if entry.size > _MAX_SEARCHED_BYTES:
        return True
    try:
        data = read_bytes(entry.path, entry.real, _MAX_SEARCHED_BYTES / 1e6)
    except SourceError:  # it grew, or is no longer a file: it may restrict its readers
        return True
    except OSError:
        return False
    return hashlib.sha256(data).hexdigest() != row.sha256 and may_restrict(data)


def withdrawn(failure: ProblemRow) -> ProblemRow:
    """Returns the failure with the reason for the withdrawal."""
    return replace(failure, reason=failure.reason.removesuffix(KEPT_NOTE) + _WITHDRAWN)


@dataclass(frozen=True)
class Ids:
    """The ids of the documents of a set, during one sync."""

    catalogue: Catalogue
    contents: int
    _numbers: dict[tuple[int, str, str], int] = field(default_factory=dict)
    """The last number that was added to an id of a file. A file may repeat an id a million times, and looking from 2
    on each time would take the square of that."""

    def of_file(self, source: Source, relative: str) -> str:
        """The path inside the source. If another source has the same path, this source's name is put in front."""
        document_id = relative
        while (owner := self._owner(document_id)) and owner[0] != source.id:
            document_id = f"{source.name}/{document_id}"
        return document_id

    def free(self, document_id: str, source: Source, path: str) -> str:
        """Makes an id unique. Records have their own ids, and two files, or two records of one file, may use the same
        one. Then the source's name, or also the file's path, is put in front; within a file a number is added."""
        owner = self._owner(document_id)
        if owner is None:
            return document_id
        key = (source.id, path, document_id)
        numbered = ((f"{document_id}#{number}", number) for number in count(self._numbers.get(key, 1) + 1))
        names = (
            (f"{source.name}/{document_id}", f"{source.name}/{path}/{document_id}")
            if owner != (source.id, path)
            else ()
        )
        found, number = next(
            pair for pair in chain(((name, 1) for name in names), numbered) if self._owner(pair[0]) is None
        )
        self._numbers[key] = number
        return found

    def _owner(self, document_id: str) -> tuple[int, str] | None:
        return self.catalogue.versions.owner_of(document_id, self.contents)


SETTLED_NS = 2_000_000_000
"""Nanoseconds. A file that was read this soon after its modification time is read again by the next sync: it may have
been written once more within the same tick of the clock."""


def unsettled(
    entries: Iterable[FileEntry], facts: set[Facts], reading: FilePreparer, failed: Container[str]
) -> tuple[list[tuple[FileEntry, Reader | None]], set[str]]:
    """Returns the files that may have changed, each with its reader, and the paths of the `facts` that describe none of
    the other files. `failed` has the paths of files with problems, which may be tried again."""
    find = reading.find
    specs: dict[int, str] = {}  # to write a spec takes longer than to compare a file, and so does the hash of a reader
    open_files: list[tuple[FileEntry, Reader | None]] = []
    settled: set[Facts] = set()
    for entry in entries:
        path = entry.relative
        reader = find(path)
        spec = specs.get(id(reader)) or specs.setdefault(id(reader), str(reader))
        same = (path, entry.size, entry.mtime_ns, spec)
        if same in facts and path not in failed:
            settled.add(same)
        else:
            open_files.append((entry, reader))
            if reader:
                reading.start()  # the process that reads starts while the other files are compared
    return open_files, {path for path, *_ in facts - settled}


def is_same(entry: FileEntry, before: FileRow | ProblemRow, *readers: str) -> bool:
    """Whether the file and its reader are as they were when it was last read, so that it need not be read again."""
    same = entry.size == before.size and entry.mtime_ns == before.mtime_ns
    return same and before.reader in ("", *readers) and before.seen_ns - before.mtime_ns > SETTLED_NS


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that could not be read, or not completely, or a document that is left to the owner."""

    path: str
    reason: str

    @property
    def left_to_owner(self) -> bool:
        """Whether the document was read and looks restricted, so that only the owner may read it."""
        return self.reason.startswith(LOOKS_RESTRICTED)


@dataclass
class SyncReport:
    """The results of a sync. The first four count files; `removed` also the documents of forgotten sources."""

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
    """The number of files without a reader, by suffix."""
    skipped: list[Problem] = field(default_factory=list)
    """Links that were not followed, pipes, sockets and devices."""
    aliases: int = 0
    """The number of links to files and folders that are read under another name."""
    waits: bool = False
    """Whether documents are found by their words only so far, because the other indexes take long."""
    rebuilt: list[str] = field(default_factory=list)
    """The retrievers whose indexes were built or brought up to date."""


@dataclass(frozen=True)
class _File:
    """A file that may have changed, with what earlier syncs recorded about it."""

    entry: FileEntry
    reader: Reader
    id: str
    row: FileRow | None
    """None if the file is new."""
    before: list[ProblemRow]
    """The problems of the file in the last sync."""


@dataclass(frozen=True)
class _Outcome:
    """The result of preparing a file: documents, a failure, or neither if the file is unchanged."""

    file: _File
    tried: ProblemRow
    """The facts of this attempt, with which its problems are recorded."""
    digest: str = ""
    prepared: Prepared | None = None
    failure: ProblemRow | None = None


@dataclass(frozen=True)
class Intake:
    """Takes in the files of sources, during one sync."""

    catalogue: Catalogue
    backend: Backend
    layout: Layout
    services: Services
    reading: FilePreparer
    base: int
    """The number of the current set of documents. New versions belong to the set after it."""
    files: FileRules = field(default_factory=FileRules)
    author: str = ""
    report: OnProgress = lambda what, done, total: None

    @cached_property
    def _ids(self) -> Ids:
        return Ids(self.catalogue, self.base + 1)

    def scan(self, source: Source, below: str = "", elsewhere: Set[str] = frozenset()) -> Scanned:
        """Finds the files of a source, or only those below the path `below`. `elsewhere` holds the real paths that
        other sources read."""
        return Scanned.of(source.root, self.files, self.reading.find, elsewhere, below)

    def take(self, source: Source, below: str, result: SyncReport, scanned: Scanned, stale_for: str = "") -> None:
        """Brings the catalogue up to date with a source, or only with its files below the path `below`. `stale_for` is
        the reason if its files could not be fetched again."""
        missed = scanned.missed
        entries = [entry for entry in scanned.entries if not below or _within(entry.relative, below)]
        if source.origin:
            self._note_left_out(source, missed, result)
        earlier = self.catalogue.problems(source)
        others = [p for p in earlier if below and not _within(p.file, below)]
        kept: dict[str, list[ProblemRow]] = {}
        for problem in earlier:
            kept.setdefault(problem.file, []).append(problem)
        problems = [_folder_problem(path) for path in missed.unreadable]
        if stale_for:
            problems.append(ProblemRow(source.origin, stale_for, source.origin))
        stale: list[_File] = []
        facts = self.catalogue.facts(source, self.base, below, SETTLED_NS)
        unsure, paths = unsettled(entries, facts, self.reading, kept)
        result.unchanged += len(entries) - len(unsure)
        paths |= {entry.relative for entry, reader in unsure if reader}
        known = self.catalogue.files(source, self.base, below, paths)
        for entry, reader in unsure:
            path = entry.relative
            row, before = known.get(path), kept.get(path, [])
            if reader is None:
                result.ignored[type_of(path)] += 1
            elif (
                row
                and is_same(entry, row, str(reader))
                and not (before and any(p.reader not in self._attempts(reader) for p in before))
            ):
                result.unchanged += 1
                problems += before
            elif any(is_same(entry, problem, *self._attempts(reader)) for problem in before):
                problems += before
            else:
                document = self._ids.of_file(source, one_spelling(printable(path)))
                stale.append(_File(entry, reader, document, row, before))
        gone = known.keys() - {entry.relative for entry in entries}
        gone = {path for path in gone if not any(_within(path, folder) for folder in missed.unreadable)}
        with self.catalogue.transaction():
            self.catalogue.versions.release((row for path in gone for row in known[path].rows), self.base + 1)
        clashes = dict(self._clashes(source, stale))
        problems += clashes.values()
        problems += self._take_all(source, [file for file in stale if file.entry.relative not in clashes], result)
        skipped = [_skipped(path, reason) for path, reason in missed.skipped if _within(path, below)]
        with self.catalogue.transaction():
            self.catalogue.set_problems(source, others + problems + skipped)
        result.removed += len(gone)
        result.aliases += missed.aliases
        result.skipped += [Problem(row.path, row.reason) for row in skipped]
        result.problems += [Problem(problem.path, problem.reason) for problem in problems]

    def _clashes(self, source: Source, stale: list[_File]) -> Iterator[tuple[str, ProblemRow]]:
        """Yields the new files whose names are other spellings of a file's name. The file with the one spelling is
        read, or else the one that was there first."""
        taken: dict[str, str] = {}
        for file in sorted(stale, key=lambda file: one_spelling(file.entry.relative) != file.entry.relative):
            path, spelling = file.entry.relative, one_spelling(file.entry.relative)
            owner = self.catalogue.versions.owner_of(file.id, self.base + 1)
            there = owner[1] if owner and owner[0] == source.id else taken.setdefault(spelling, path)
            if file.row is None and there != path and one_spelling(there) == spelling:
                reason = f"has the same name as {printable(there)!a}, except for what nobody sees; rename one of them"
                yield path, ProblemRow(printable(path), reason, printable(path))

    def _note_left_out(self, source: Source, missed: Missed, result: SyncReport) -> None:
        """Records the files and links of a repository that were not extracted, because a scan cannot find them."""
        for name, target, reason in left_out(source.root.parent):
            if is_ignored(name, self.files):
                continue
            if reason:
                missed.skipped.append((name, reason))
            elif target:
                missed.skipped.append((name, f"is a link to {target}; links in a repository are not followed"))
            elif self.reading.find(name):
                missed.skipped.append((name, f"is larger than {self.reading.limits.file_mb:g} MB (max_file_mb)"))
            else:
                result.ignored[type_of(name)] += 1

    def _take_all(self, source: Source, stale: list[_File], result: SyncReport) -> Iterator[ProblemRow]:
        """Prepares files in parallel, outside any transaction; commits them in batches; yields their problems."""
        outcomes = self.reading.each(
            partial(self._prepared, self._child_layout), stale, len(stale), lambda file: file.entry.size
        )
        for few in batches(self._reported(outcomes, len(stale)), lambda outcome: outcome.file.entry.size):
            batch = [self._cut(outcome) for outcome in few]
            with self.catalogue.transaction():
                for outcome, chunks, missed in batch:
                    yield from self._commit(source, outcome, chunks, missed, result)
        if stale:
            self.report("Reading", len(stale), len(stale))

    def _reported(self, outcomes: Iterator[_Outcome], total: int) -> Iterator[_Outcome]:
        for number, outcome in enumerate(outcomes):
            self.report("Reading", number, total)
            yield outcome

    @property
    def _child_layout(self) -> str:
        """The layout in which child processes cut; empty if it needs a service, which only this process has."""
        return str(self.layout) if self.layout.text_only else ""

    def _attempts(self, reader: Reader) -> tuple[str, str]:
        """Describes an attempt to read a file, for parts that could not be read, and an attempt to read and cut it, for
        files that failed: with another layout they may not."""
        return self.reading.attempt(reader), self.reading.attempt(reader, str(self.layout))

    def _prepared(self, layout: str, file: _File) -> _Outcome:
        """Prepares a file. It does not use the catalogue, so it can run in any thread."""
        name, (attempt, attempt_to_cut) = printable(file.entry.relative), self._attempts(file.reader)
        tried = ProblemRow(name, "", name, file.entry.size, file.entry.mtime_ns, time.time_ns(), attempt)
        failed = replace(tried, reader=attempt_to_cut)
        try:
            digest = self._checked(file.entry)
            row = file.row
            same = row is not None and digest == row.sha256 and row.reader in ("", str(file.reader))
            if same and all(p.reader in (attempt, attempt_to_cut) for p in file.before):
                return _Outcome(file, tried, digest)
            prepared = self.reading.read(file.reader, file.entry.path, file.id, layout, file.entry.real)
            return _Outcome(file, tried, digest, prepared)
        except (MissingPartError, OSError) as error:  # can be fixed without changing the file: size -1, try each time
            return _Outcome(file, tried, failure=_failure(replace(failed, size=-1), str(error), file.row))
        except SourceError as error:
            return _Outcome(file, tried, failure=_failure(failed, str(error), file.row))
        except Exception as error:  # an unexpected error in a library fails this file, not the sync
            reason = f"cannot be read ({type(error).__name__}: {error})"
            return _Outcome(file, tried, failure=_failure(failed, reason, file.row))

    def _cut(self, outcome: _Outcome) -> tuple[_Outcome, list[list[Chunk]], str]:
        """Cuts documents that the child did not cut. Returns the outcome, the chunks and, if a model failed, why."""
        prepared = outcome.prepared
        if prepared is None or prepared.chunks or not prepared.documents:
            return outcome, prepared.chunks if prepared else [], ""
        made = [cut_here(self.layout, document, self.services) for document in prepared.documents]
        return outcome, [chunks for chunks, _ in made], next((missed for _, missed in made if missed), "")

    def _commit(
        self, source: Source, outcome: _Outcome, chunks: list[list[Chunk]], missed: str, result: SyncReport
    ) -> list[ProblemRow]:
        """Writes one prepared file to the catalogue and the backend. Returns its problems."""
        file, tried, prepared = outcome.file, outcome.tried, outcome.prepared
        if outcome.failure:
            removed = withdraw(self.catalogue.versions, file.entry, file.row, self.base + 1)
            result.removed += removed
            return [withdrawn(outcome.failure) if removed else outcome.failure]
        if prepared is None:
            if file.row:
                self.catalogue.versions.touch(file.row, file.entry.size, file.entry.mtime_ns, tried.seen_ns)
            result.unchanged += 1
            return file.before
        if file.row:
            self.catalogue.versions.release(file.row.rows, self.base + 1)
        entry = file.entry
        about = (source.id, entry.relative, entry.size, entry.mtime_ns, tried.seen_ns, outcome.digest, str(file.reader))
        layout = str(self.layout)
        deltas = [
            self._added(source, entry.relative, document, Delta(layout, 0, pieces), about)
            for document, pieces in zip(prepared.documents, chunks, strict=True)
        ]
        self.backend.write(deltas)
        if missed and deltas:
            self.catalogue.versions.reread_file(deltas[0].version)
        result.changed += bool(file.row)
        result.added += not file.row
        complaints = _complaints(tried, prepared)
        return [*complaints, replace(tried, reason=missed, size=-1)] if missed and not complaints else complaints

    def _added(self, source: Source, path: str, document: Document, delta: Delta, about: tuple[object, ...]) -> Delta:
        """Adds a document to the catalogue. Returns its chunks with its version, and under the id that was free."""
        document_id, chunks = self._ids.free(record_name(document.id) or path, source, path), delta.chunks
        if document_id != document.id:
            document = replace(document, id=document_id)
            chunks = [replace(chunk, document=document_id) for chunk in chunks]
        version = self.catalogue.versions.add(
            document, content_hash(document), about, self.base + 1, author=self.author
        )
        return replace(delta, version=version, chunks=chunks)

    def _checked(self, entry: FileEntry) -> str:
        """Returns the digest of a file. Raises `SourceError` if the file is too large or its name is not UTF-8."""
        limit = self.reading.limits.file_mb
        if entry.size > limit * 1e6:
            raise SourceError(f"is larger than {limit:g} MB (max_file_mb): {entry.size / 1e6:.3g} MB")
        if any("\ud800" <= char <= "\udfff" for char in entry.relative):
            raise SourceError("has a name that is not UTF-8; rename it")
        spelling = one_spelling(entry.relative)
        if (why := wrong_name(spelling)) or is_ignored(spelling, FileRules()):
            raise SourceError(f"has a name that no document can have ({why or 'it is hidden'}); rename it")
        return hashlib.sha256(read_bytes(entry.path, entry.real, limit)).hexdigest()


def _folder_problem(path: str) -> ProblemRow:
    return ProblemRow(printable(path), "cannot be opened; documents indexed from it before are kept", printable(path))


def _skipped(path: str, reason: str) -> ProblemRow:
    return ProblemRow(printable(path), printable(reason), printable(path))


def _failure(tried: ProblemRow, reason: str, row: FileRow | None) -> ProblemRow:
    return replace(tried, reason=reason + KEPT_NOTE if row else reason)


def _complaints(tried: ProblemRow, taken: Prepared) -> list[ProblemRow]:
    reasons: dict[str, list[str]] = {}
    for inside, reason in taken.complaints:
        reasons.setdefault(printable(inside), []).append(reason)
    return [
        replace(
            tried, path=f"{tried.file}/{inside}" if inside else tried.file, reason="; ".join(dict.fromkeys(complaints))
        )
        for inside, complaints in reasons.items()
    ]


def _within(path: str, below: str) -> bool:
    return not below or path == below or path.startswith(f"{below}/")


def type_of(path: str) -> str:
    """Returns the type under which a file without a reader is counted: its suffix."""
    return printable(Path(path).suffix.lower()) or "no suffix"


def printable(path: str) -> str:
    """Replaces the characters of a path that UTF-8 cannot encode."""
    return path.encode("utf-8", "replace").decode()
