"""How long a first `surefind sync` takes: until the documents are found by words, and until all vectors are there.

    python benchmarks/sync_times.py FOLDER… [--words]
    python benchmarks/sync_times.py --files 100000 --words

Each folder is synced into a new knowledge base, with the default settings, or with --words without vectors. --files
writes so many Markdown files of about 2,000 characters into a temporary folder instead, from the words of this
repository's documentation. Prints a row of a table for each folder.
"""

from __future__ import annotations

import argparse
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


def written(folder: Path, files: int) -> Path:
    """Writes files from words of the documentation, as often as they stand there."""
    pages = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
    words = re.findall(r"[A-Za-z][A-Za-z'-]+", " ".join(page.read_text(encoding="utf-8") for page in pages))
    chance = random.Random(SEED)
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
        if process.wait():
            sys.exit(f"surefind sync {folder} failed")
        wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
        name = "written by --files" if str(folder).startswith(tempfile.gettempdir()) else folder.name
        complete = "–" if words else f"{wall:.0f} s"
        return (
            f"| {name} | {documents} | {size:.1f} | {passages} | {searchable or wall:.1f} s | {complete} | {used:.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Times a first sync.")
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--files", type=int, default=0)
    parser.add_argument("--words", action="store_true", help="without vectors")
    asked = parser.parse_args()
    print(machine("surefind"), f"cores: {len(os.sched_getaffinity(0))}")
    print("| source | files | MB | passages | found by words | complete | CPU s |\n|---|--:|--:|--:|--:|--:|--:|")
    for folder in asked.folders:
        print(row(folder.resolve(), asked.words), flush=True)
    if asked.files:
        with tempfile.TemporaryDirectory() as work:
            print(row(written(Path(work), asked.files), asked.words), flush=True)


if __name__ == "__main__":
    main()
