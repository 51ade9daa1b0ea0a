"""Times `surefind sync` when nothing has changed: 5,000 Markdown files, BM25 only.

    python benchmarks/sync_unchanged.py

Writes the files into a temporary folder, syncs once, then times five more syncs by the wall clock, including the start
of the process.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _shared import machine

FILES, ROUNDS = 5_000, 5
SETTINGS = '[search]\npipeline = "words"\n[pipelines.words]\nretrieve = ["bm25"]\n'
WORDS = [a + b for a in "ledger wire member branch claim audit policy escrow".split() for b in "ing ed s er".split()]


def write(folder: Path, chance: random.Random) -> None:
    """Writes files of about 2 kB in folders of 100, each with a title and four sections."""
    for i in range(FILES):
        path = folder / f"{i // 100:03}" / f"{i:05}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        sections = (f"## Section {j}\n\n{' '.join(chance.choices(WORDS, k=60))}.\n" for j in range(4))
        path.write_text(f"# Document {i}\n\n" + "\n".join(sections), encoding="utf-8")


def sync(folder: Path, *paths: str) -> tuple[float, str]:
    started = time.perf_counter()
    command = [Path(sys.executable).with_name("surefind"), "sync", *paths]
    output = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    return time.perf_counter() - started, output.splitlines()[0]


def main() -> None:
    print(machine("surefind"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "docs", random.Random(1))
        (folder / "surefind.toml").write_text(SETTINGS)
        print("first sync: {:.2f} s ({})".format(*sync(folder, "docs")), flush=True)
        again = [sync(folder) for _ in range(ROUNDS)]
    print("again:", ", ".join(f"{seconds:.2f}" for seconds, _ in again), f"s ({again[-1][1]})")
    print(f"median {statistics.median(seconds for seconds, _ in again):.2f} s")


if __name__ == "__main__":
    main()
