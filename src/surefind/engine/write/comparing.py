"""Compares the files that a scan found with what was recorded when they were read.

Nearly all files are as they were. For each of them a sync compares one tuple and makes no object.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from surefind.base.protocols import Reader
from surefind.engine.files.scan import FileEntry
from surefind.engine.store.rows import Facts, FileRow, ProblemRow
from surefind.engine.write.reading import Reading

SETTLED_NS = 2_000_000_000
"""Nanoseconds. A file that was read this soon after its modification time is read again by the next sync: it may have
been written once more within the same tick of the clock."""


def unsettled(
    entries: Iterable[FileEntry], facts: set[Facts], reading: Reading, failed: Container[str]
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
