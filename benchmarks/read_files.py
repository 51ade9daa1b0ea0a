"""How fast files are read and cut into passages, without embedding.

    python benchmarks/read_files.py FOLDER [FOLDER …]

For each folder: every file that has a reader is read as a sync reads it and cut by the default layout; files and
megabytes a second, best of three, by reader. The peer in the same run is markdown-it-py parsing the same extracted
text once in full, which is what a Markdown chunker pays at least.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt

from _shared import machine
from surefind.config import default_settings
from surefind.errors import SurefindError
from surefind.ingest._limits import Limits
from surefind.ingest._readers import Readers
from surefind.ingest._reading import Reading
from surefind.ingest._scan import FileEntry, scan
from surefind.services import Services
from surefind.types import Document

ROUNDS = 3


def read(reading: Reading, entries: list[FileEntry]) -> list[Document]:
    documents = []
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
    layout, services, parser = default_settings().layout, Services(), MarkdownIt("commonmark").enable("table")
    print(f"layout {layout}")
    with Reading(Readers(), Limits()) as reading:
        for folder in sys.argv[1:]:
            groups: dict[str, list[FileEntry]] = defaultdict(list)
            for entry in scan(Path(folder)):
                reader = reading.find(entry.relative)
                if reader is not None:
                    groups[str(reader)].append(entry)
            for name, entries in sorted(groups.items()):
                best = {"read": 1e9, "cut": 1e9, "peer": 1e9}
                for _ in range(ROUNDS):
                    times = [time.perf_counter()]
                    documents = read(reading, entries)
                    times.append(time.perf_counter())
                    chunks = [chunk for document in documents for chunk in layout.cut(document, services)]
                    times.append(time.perf_counter())
                    for document in documents:
                        parser.parse(document.text)
                    times.append(time.perf_counter())
                    for what, (a, b) in zip(best, pairwise(times), strict=True):
                        best[what] = min(best[what], b - a)
                both = best["read"] + best["cut"]
                size = sum(entry.size for entry in entries) / 1e6
                print(
                    f"{folder} {name}: {len(entries)} files, {size:.1f} MB, {len(chunks)} passages; "
                    f"read {best['read']:.2f} s, cut {best['cut']:.2f} s, together {len(entries) / both:.0f} files/s, "
                    f"{both / best['peer']:.2f} x one full parse by markdown-it-py"
                )


if __name__ == "__main__":
    main()
