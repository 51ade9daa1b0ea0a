"""Measures how fast files are read and cut into passages, without embedding.

    python benchmarks/read_files.py FOLDER [FOLDER …]

In each folder, every file that has a reader is read as in a sync and cut by the default layout. Printed for each reader
are the files per second by the clock and by processor time (best of three, with the start of the child process), and
the ratio to a peer in the same run: markdown-it-py parsing the same extracted text once, which is the least a Markdown
chunker must do. On a shared machine, look at processor time and the ratio.
"""

from __future__ import annotations

import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from markdown_it import MarkdownIt

from _shared import machine
from surefind.abilities import name_of
from surefind.errors import SurefindError
from surefind.files.limits import FileLimits
from surefind.files.readers import Readers
from surefind.files.scan import FileEntry, scan
from surefind.services import LocalServices
from surefind.settings.config import default_settings
from surefind.types import Document
from surefind.write.reading import Reading

ROUNDS = 3
T = TypeVar("T")


def used() -> tuple[float, float]:
    """The clock, and the processor time of this process and its ended children, in seconds."""
    ours, theirs = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter(), ours.ru_utime + ours.ru_stime + theirs.ru_utime + theirs.ru_stime


def timed(work: Callable[[], T]) -> tuple[float, float, T]:
    clock, processor = used()
    result = work()
    clock_after, processor_after = used()
    return clock_after - clock, processor_after - processor, result


def read(entries: list[FileEntry]) -> list[Document]:
    documents = []
    with Reading(Readers(), FileLimits()) as reading:
        for entry in entries:
            reader = reading.find(entry.relative)
            assert reader is not None
            try:
                documents += reading.read(reader, entry.path, entry.relative).documents
            except SurefindError as error:
                print(f"  {entry.relative} {error}")
    return documents


def main() -> None:
    print(machine("surefind", "markdown-it-py"))
    layout, services, parser = default_settings().layout, LocalServices(), MarkdownIt("commonmark").enable("table")
    print(f"layout {layout}")
    for folder in sys.argv[1:]:
        groups: dict[str, list[FileEntry]] = defaultdict(list)
        for entry in scan(Path(folder)):
            reader = Readers().find(entry.relative)
            if reader is not None:
                groups[name_of(reader)].append(entry)
        for name, entries in sorted(groups.items()):
            rounds = []
            for _ in range(ROUNDS):
                clock, processor, documents = timed(lambda entries=entries: read(entries))
                more, cutting, chunks = timed(lambda d=documents: [c for one in d for c in layout.cut(one, services)])
                _, peer, _ = timed(lambda d=documents: [parser.parse(one.text) for one in d])
                rounds.append((processor + cutting, clock + more, processor, cutting, peer))
            both, clock, processor, cutting, peer = min(rounds)
            size = sum(entry.size for entry in entries) / 1e6
            print(
                f"{Path(folder).name} {name}: {len(entries)} files, {size:.1f} MB, {len(chunks)} passages; processor: "
                f"read {processor:.2f} s, cut {cutting:.2f} s, {len(entries) / both:.0f} files/s; clock: "
                f"{len(entries) / clock:.0f} files/s; {both / peer:.2f} x the peer",
                flush=True,
            )


if __name__ == "__main__":
    main()
