"""Compares the time of a first sync of the same Markdown files by two versions of Surefind, in turns.

    python benchmarks/sync_versions.py SOURCE-OF-THE-OTHER-VERSION FOLDER [ROUNDS]

`SOURCE-OF-THE-OTHER-VERSION` is its `src` folder; the version on PYTHONPATH is the one that is measured. The Markdown
files of FOLDER are copied until there are at least 500. Each round syncs them with both versions into new knowledge
bases, without vectors, and takes the wall-clock time and the processor time of the whole process tree.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _shared import machine

SETTINGS = '[search]\npipeline = "words"\n\n[pipelines.words]\nretrieve = ["bm25"]\n'
LEAST = 500


def copied(folder: Path, target: Path) -> int:
    """Copies the Markdown files below a folder, again and again, and returns how many there are."""
    texts = [path.read_bytes() for path in sorted(folder.rglob("*.md*")) if path.is_file()]
    every = texts * -(-LEAST // len(texts))
    for number, text in enumerate(every):
        (target / f"{number}.md").write_bytes(text)
    return len(every)


def spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def synced(source: str, documents: Path) -> tuple[float, float]:
    """Seconds by the clock and of the processor for one sync."""
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / "surefind.toml").write_text(SETTINGS)
        command = [sys.executable, "-m", "surefind", "sync", str(documents), "--kb", home]
        before, started = spent(), time.perf_counter()
        subprocess.run(command, env={**os.environ, "PYTHONPATH": source}, check=True, capture_output=True, cwd=home)
        return time.perf_counter() - started, spent() - before


def main() -> None:
    other, folder, rounds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 7
    sources = {"other": other, "this": os.environ["PYTHONPATH"]}
    print(machine("surefind", "markdown-it-py"))
    with tempfile.TemporaryDirectory() as documents:
        files = copied(folder, Path(documents))
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in sources}
        for number in range(rounds + 1):
            for name, source in sources.items():
                one = synced(source, Path(documents))
                if number:  # the first round warms the caches of the disk and of Python
                    taken[name].append(one)
    print(f"{files} files, {rounds} rounds")
    for what, at in (("wall-clock", 0), ("processor", 1)):
        pairs = [this[at] / that[at] for this, that in zip(taken["this"], taken["other"], strict=True)]
        times = {name: statistics.median(one[at] for one in found) for name, found in taken.items()}
        print(
            f"{what}: this {times['this']:.2f} s, other {times['other']:.2f} s, ratio of medians "
            f"{times['this'] / times['other']:.3f}, ratios of the rounds {min(pairs):.2f} to {max(pairs):.2f}"
        )


if __name__ == "__main__":
    main()
