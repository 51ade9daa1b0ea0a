"""Times `surefind sync` when one file among 10,000 has changed.

    python benchmarks/sync_one_changed.py            BM25 and MiniLM, as in the default settings
    python benchmarks/sync_one_changed.py bm25       BM25 only

Writes the files into a temporary folder, syncs once, then five times changes one file and syncs. Measured are wall
clock and processor time, including the start of the process and the embedding of the changed file.
"""

from __future__ import annotations

import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _shared import machine

FILES, ROUNDS = 10_000, 5
WORDS = [a + b for a in "ledger wire member branch claim audit policy escrow".split() for b in "ing ed s er".split()]


def write(path: Path, title: str, chance: random.Random) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"# {title}\n\n{' '.join(chance.choices(WORDS, k=25))}.\n", encoding="utf-8")


def sync(folder: Path, *paths: str) -> tuple[float, float, str]:
    """Syncs; returns the seconds by the clock and of the processor, and the first line of output."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "surefind", "sync", *paths]
    output = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return wall, used, output.splitlines()[0]


def main() -> None:
    print(machine("surefind"))
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for i in range(FILES):
            write(folder / "docs" / f"{i // 100:03}" / f"{i:05}.md", f"Document {i}", chance)
        if sys.argv[1:] == ["bm25"]:
            settings = '[search]\npipeline = "words"\n[pipelines.words]\nretrieve = ["bm25"]\n'
            (folder / "surefind.toml").write_text(settings, encoding="utf-8")
        print("first sync: {:.1f} s, processor {:.1f} s ({})".format(*sync(folder, "docs")), flush=True)
        print("nothing changed: {:.2f} s, processor {:.2f} s ({})".format(*sync(folder)), flush=True)
        taken = []
        for i in range(ROUNDS):
            write(folder / "docs" / "050" / "05000.md", f"Changed {i}", chance)
            taken.append(sync(folder))
    for what, column in (("clock", 0), ("processor", 1)):
        seconds = [row[column] for row in taken]
        listed = ", ".join(f"{value:.2f}" for value in seconds)
        print(f"one changed, {what}: {listed} s, median {statistics.median(seconds):.2f} s ({taken[-1][2]})")


if __name__ == "__main__":
    main()
