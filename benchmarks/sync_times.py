"""How long a first `surefind sync` takes: until the documents are found by words, and until all vectors are there.

    python benchmarks/sync_times.py FOLDER… [--words]
    python benchmarks/sync_times.py --files 100000 --words
    python benchmarks/sync_times.py --records 1000000 --words

Each folder is synced into a new knowledge base, with the default settings, or with --words without vectors. --files
writes so many Markdown files of about 2,000 characters into a temporary folder instead, from the words of this
repository's documentation, and --records so many records of one passage, 50,000 in a file of JSON lines. Prints a row
of a table for each folder.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _shared import machine

SEED = 49
WORDS_ONLY = '[search]\npipeline = "words"\n[pipelines.words]\nretrieve = ["bm25"]\n'
WORDS_A_SECTION, SECTIONS = 80, 4


RECORDS_A_FILE = 50_000


def vocabulary() -> list[str]:
    """The words of the documentation, as often as they stand there."""
    pages = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
    return re.findall(r"[A-Za-z][A-Za-z'-]+", " ".join(page.read_text(encoding="utf-8") for page in pages))


def written(folder: Path, files: int) -> Path:
    """Writes Markdown files."""
    words, chance = vocabulary(), random.Random(SEED)
    for number in range(files):
        parts = [f"# Page {number}\n"]
        for _ in range(SECTIONS):
            parts.append(
                f"## {' '.join(chance.choices(words, k=3))}\n\n{' '.join(chance.choices(words, k=WORDS_A_SECTION))}.\n"
            )
        path = folder / f"{number // 1000:03}" / f"{number:06}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(parts), encoding="utf-8")
    return folder


def recorded(folder: Path, records: int) -> Path:
    """Writes records of one passage."""
    words, chance = vocabulary(), random.Random(SEED)
    for first in range(0, records, RECORDS_A_FILE):
        with (folder / f"{first:09}.jsonl").open("w", encoding="utf-8") as file:
            for number in range(first, min(first + RECORDS_A_FILE, records)):
                text = " ".join(chance.choices(words, k=WORDS_A_SECTION))
                file.write(json.dumps({"id": f"r{number}", "title": f"Record {number}", "text": text}) + "\n")
    return folder


def row(folder: Path, words: bool) -> str:
    with tempfile.TemporaryDirectory() as home:
        if words:
            (Path(home) / "surefind.toml").write_text(WORDS_ONLY, encoding="utf-8")
        started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "surefind", "sync", str(folder)]
        process = subprocess.Popen(command, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert process.stderr
        searchable, passages, documents = 0.0, "", ""
        for line in process.stderr:
            if match := re.match(r"([\d,]+) documents are searchable by words", line):
                searchable, documents = time.perf_counter() - started, match[1]
            elif match := re.match(r"Indexing bm25: (?:started|finished), ([\d,]+)", line):
                passages = match[1]
            elif match := re.match(r"Reading: (?:started|finished), ([\d,]+)", line):
                documents = documents or match[1]
        if process.wait() or not passages:
            sys.exit(f"surefind sync {folder} failed")
        wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
        name = "written for this" if str(folder).startswith(tempfile.gettempdir()) else folder.name
        complete = "–" if words else f"{wall:.0f} s"
        return (
            f"| {name} | {documents} | {size:.1f} | {passages} | {searchable or wall:.1f} s | {complete} | {used:.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Times a first sync.")
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--files", type=int, default=0)
    parser.add_argument("--records", type=int, default=0)
    parser.add_argument("--words", action="store_true", help="without vectors")
    asked = parser.parse_args()
    print(machine("surefind"), f"cores: {len(os.sched_getaffinity(0))}")
    print("| source | files | MB | passages | found by words | complete | CPU s |\n|---|--:|--:|--:|--:|--:|--:|")
    for folder in asked.folders:
        print(row(folder.resolve(), asked.words), flush=True)
    for write, count in ((written, asked.files), (recorded, asked.records)):
        if count:
            with tempfile.TemporaryDirectory() as work:
                print(row(write(Path(work), count), asked.words), flush=True)


if __name__ == "__main__":
    main()
