"""Tests the core under load: threads of several processes search while a writer makes generation after generation.

    python benchmarks/core_stress.py SCRATCH [--searches 100000] [--switches 100] [--threads 8] [--processes 2]

SCRATCH is a folder for the knowledge base; the results of an earlier run in it are deleted. The documents are pages of
the bundled sample, and every version of every page is unique (`_stress.py`), so the script knows the right answer
of each generation for each caller. Each search is checked for pages that its generation does not have, text of another
generation, pages that the caller may not read, the page that it must find, the count of withheld documents, and a
different answer to the same search of the same generation elsewhere.

Readers use `kb.search`, with three pipelines and five kinds of access. The writer syncs (pages are changed, added,
removed and restricted), publishes drafts, rolls back, and deletes an index of the newest generation from the disk
before it syncs again. Once it holds its lock and a transaction for five seconds, to see whether searches wait for it.
The exit code is 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import multiprocessing
import pickle
import random
import resource
import shutil
import sys
import threading
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from _shared import machine
from _stress import (
    ACCESSES,
    HOLD,
    KEEP,
    PAGES,
    Commits,
    Search,
    Writer,
    check,
    marker_of,
    sample_pages,
)
from surefind import KnowledgeBase

TOP = 5
SETTINGS = f"""
[sync]
keep_generations = {KEEP}
[search]
pipeline = "words"
[pipelines.words]
retrieve = ["bm25"]
[pipelines.pairs]
retrieve = ["tfidf(ngrams=2)"]
[pipelines.hybrid]
retrieve = ["bm25", "dense"]
fuse = "convex(alpha=0.5, missing=score)"
"""
PIPELINES = ("words", "pairs", "hybrid")
ASKED = ("words", "words", "pairs", "pairs", "hybrid")
"""Pipelines to draw from. Only one in five searches is hybrid, because it takes ten times as long as the others."""
COMMON = ("member", "branch", "policy", "account", "report")
"""Words that many pages share, so that a search finds other pages besides the one it asks for."""
AFTER = 0.1
"""Seconds after a switch to another generation for which latencies are reported separately."""
SPARE = 16
"""How many more open files a reader process may have at the end than at the start."""


# ------------------------------------------------------------ the readers


class Readings(NamedTuple):
    """The results of one reader process."""

    searches: list[Search]
    files: tuple[int, int]
    """The number of open files at the start and at the end."""
    memory: tuple[float, float]
    """Peak memory in MB, up to the start and up to the end."""


def search(kb: KnowledgeBase, page: int, word: str, pipeline: str, access: str) -> Search:
    query = f"{marker_of(page)} {marker_of(page)} {word}"
    began = time.perf_counter()
    try:
        result = kb.search(query, ACCESSES[access], TOP, pipeline, confidence="quick")
    except Exception:
        return Search(began, time.perf_counter(), page, word, pipeline, access, error=traceback.format_exc())
    ended = time.perf_counter()
    hits = tuple(
        (hit.document, hit.start, hit.end, zlib.crc32(hit.text.encode()), hit.metadata.get("revision"))
        for hit in result.hits
    )
    return Search(began, ended, page, word, pipeline, access, result.generation, result.withheld, hits)


def read(home: Path, number: int, threads: int, counts: Any, ready: Any, stop: Any) -> None:
    """Runs a reader process, whose threads search until `stop` is set."""
    found: list[list[Search]] = [[] for _ in range(threads)]
    warm = threading.Barrier(threads + 1)

    def work(kb: KnowledgeBase, own: int) -> None:
        chance = random.Random(number * threads + own)
        for pipeline in PIPELINES:
            search(kb, 0, COMMON[0], pipeline, "owner")
        warm.wait()
        while not stop.is_set():
            page, word, pipeline = chance.randrange(PAGES), chance.choice(COMMON), chance.choice(ASKED)
            found[own].append(search(kb, page, word, pipeline, chance.choice(list(ACCESSES))))
            counts[number * threads + own] += 1

    with KnowledgeBase.open(home) as kb:
        team = [threading.Thread(target=work, args=(kb, own), daemon=True) for own in range(threads)]
        for thread in team:
            thread.start()
        warm.wait()
        files, memory = open_files(), peak_mb()
        ready.release()
        for thread in team:
            thread.join()
        made = Readings([one for own in found for one in own], (files, open_files()), (memory, peak_mb()))
    (home / f"reader-{number}.pickle").write_bytes(pickle.dumps(made))


def open_files() -> int:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


def peak_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3


# ------------------------------------------------------------ the report


Spans = Sequence[tuple[float, float]]


def overlap(searches: Sequence[Search], spans: Spans) -> np.ndarray:
    """Which searches overlap in time with any of the spans."""
    found = np.zeros(len(searches), bool)
    began, ended = (np.array([one[side] for one in searches]) for side in (0, 1))
    for low, high in spans:
        found |= (began <= high) & (ended >= low)
    return found


def switches(searches: Sequence[Search]) -> dict[int, float]:
    """Maps each generation to the start of the process's first search that was answered from it."""
    seen: dict[int, float] = {}
    for one in searches:
        if not one.error:
            seen[one.generation] = min(one.began, seen.get(one.generation, one.began))
    return dict(sorted(seen.items()))


def line(what: str, seconds: np.ndarray) -> str:
    if not len(seconds):
        return f"  {what:<40} {0:>9}"
    p50, p99, most = np.percentile(seconds, [50, 99, 100]) * 1000
    return f"  {what:<40} {len(seconds):>9,} {p50:>9.1f} {p99:>9.1f} {most:>9.1f}"


def waited(searches: Sequence[Search], held: tuple[float, float]) -> int:
    """How many searches began in the first half of the time that the writer held its lock, and ended after it."""
    began, ended = held
    return sum(began < one.began < (began + ended) / 2 and one.ended > ended for one in searches)


def show_latencies(readings: Sequence[Readings], writer: Writer, held: tuple[float, float]) -> None:
    searches = [one for reading in readings for one in reading.searches]
    taken = np.array([one.ended - one.began for one in searches])
    near = np.concatenate(
        [
            overlap(reading.searches, [(at, at + AFTER) for at in list(switches(reading.searches).values())[1:]])
            for reading in readings
        ]
    )
    writing = overlap(searches, [(began, ended) for _, began, ended in writer.spent])
    waiting = overlap(searches, [held])
    print(f"\n  {'latency, ms':<40} {'searches':>9} {'p50':>9} {'p99':>9} {'max':>9}")
    print(line("all", taken))
    print(line(f"within {AFTER * 1000:.0f} ms after its process switched", taken[near]))
    print(line("others", taken[~near]))
    print(line("while the writer worked", taken[writing]))
    print(line("while it did not", taken[~writing]))
    print(line(f"while it held its lock for {HOLD:.0f} s", taken[waiting]))
    for pipeline in PIPELINES:
        print(line(pipeline, taken[[one.pipeline == pipeline for one in searches]]))


def show_writer(readings: Sequence[Readings], writer: Writer, commits: dict[int, float]) -> None:
    print(f"\n  {'writer, s':<40} {'times':>9} {'p50':>9} {'max':>9}")
    for what in dict.fromkeys(what for what, *_ in writer.spent):
        seconds = [ended - began for kind, began, ended in writer.spent if kind == what]
        print(f"  {what:<40} {len(seconds):>9} {np.median(seconds):>9.2f} {max(seconds):>9.2f}")
    seen = [
        at - commits[number]
        for reading in readings
        for number, at in list(switches(reading.searches).items())[1:]
        if number in commits
    ]
    if seen:
        what = "from a commit to the first answer from it"
        print(f"  {what:<40} {len(seen):>9} {np.median(seen):>9.2f} {max(seen):>9.2f}")


def judge(readings: Sequence[Readings], writer: Writer, held: tuple[float, float]) -> list[str]:
    """Lists what was wrong, in words."""
    searches = [one for reading in readings for one in reading.searches]
    errors = Counter(one.error for one in searches if one.error)
    wrong = check([reading.searches for reading in readings], writer.expected)
    blocked = waited(searches, held)
    print(f"\n  errors {errors.total()}, wrong or mixed results {wrong.total()}, waited for the writer {blocked}")
    found = [*writer.problems, *(f"{count} searches: {what}" for what, count in wrong.most_common())]
    found += [f"{count} searches failed:\n{error}" for error, count in errors.most_common(5)]
    if blocked:
        found.append(f"{blocked} searches waited until the writer released its lock")
    for number, reading in enumerate(readings):
        seen = switches(reading.searches)
        (before, after), (least, most) = reading.files, reading.memory
        print(
            f"  reader {number}: {len(seen) - 1} switches seen, open files {before} -> {after}, "
            f"memory {least:.0f} -> {most:.0f} MB at most"
        )
        if max(seen, default=0) != max(writer.expected):
            found.append(f"reader {number} never reached generation {max(writer.expected)}")
        if after > before + SPARE:
            found.append(f"reader {number} had {before} files open at the start and {after} at the end")
    return found


# ------------------------------------------------------------ the run


def prepared(scratch: Path) -> Writer:
    home, docs = scratch / "kb", scratch / "docs"
    for folder in (home, docs):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    (home / "surefind.toml").write_text(SETTINGS, encoding="utf-8")
    writer = Writer(KnowledgeBase.open(home), docs, sample_pages(), random.Random(1))
    writer.begin()
    return writer


def drive(writer: Writer, options: argparse.Namespace, counts: Any) -> tuple[int, tuple[float, float]]:
    """Makes the generations, spread over the searches. Returns how many, and when the lock was held."""
    end = time.monotonic() + options.minutes * 60
    made, held = 0, (0.0, 0.0)

    def until(searches: float) -> bool:
        while sum(counts) < searches and time.monotonic() < end:
            time.sleep(0.01)
        return time.monotonic() < end

    for number in range(options.switches):
        if not until(options.searches * number / options.switches):
            break
        writer.turn(number)
        made += 1
        if number == options.switches // 2:
            held = writer.hold()
    until(options.searches)
    last = time.monotonic() + 5  # time for the readers to open the last generation and to search it
    before = sum(counts)
    while time.monotonic() < last or (sum(counts) < before + 100 and time.monotonic() < last + 30):
        time.sleep(0.01)
    return made, held


def main(options: argparse.Namespace) -> int:
    print(machine("surefind", "numpy", "onnxruntime"))
    context = multiprocessing.get_context("spawn")
    writer = prepared(options.scratch)
    home = writer.kb.folder
    counts = context.Array("q", options.processes * options.threads, lock=False)
    ready, stop = context.Semaphore(0), context.Event()
    arguments = [(home, number, options.threads, counts, ready, stop) for number in range(options.processes)]
    readers = [context.Process(target=read, args=each, daemon=True) for each in arguments]
    for process in readers:
        process.start()
    if not all(ready.acquire(timeout=120) for _ in readers):
        raise SystemExit("The readers did not start within two minutes.")
    commits = Commits(writer.kb.data)
    commits.start()
    began = time.monotonic()
    try:
        made, held = drive(writer, options, counts)
    finally:
        stop.set()
        commits.over.set()
        for process in readers:
            process.join(60)
    minutes = (time.monotonic() - began) / 60
    stuck = [process for process in readers if process.is_alive()]
    for process in stuck:
        process.terminate()
    if stuck or any(process.exitcode for process in readers):
        print(
            f"{len(stuck)} of {len(readers)} reader processes did not end; exit codes {[r.exitcode for r in readers]}"
        )
        return 1
    readings = [pickle.loads((home / f"reader-{number}.pickle").read_bytes()) for number in range(options.processes)]
    total = sum(len(reading.searches) for reading in readings)
    print(
        f"  {total:,} searches by {options.processes} x {options.threads} threads, {made} switches to "
        f"{len(writer.expected)} generations, {minutes:.1f} minutes"
        f"{'' if made == options.switches and total >= options.searches else ', ended by --minutes'}"
    )
    show_latencies(readings, writer, held)
    show_writer(readings, writer, commits.at)
    found = judge(readings, writer, held)
    writer.finish()
    writer.kb.close()
    found += [problem for problem in writer.problems if problem not in found]
    for problem in found:
        print(f"  WRONG: {problem}")
    print("Nothing was wrong." if not found else f"{len(found)} problems were found.")
    return int(bool(found))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--searches", type=int, default=100_000)
    parser.add_argument("--switches", type=int, default=100)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=10)
    sys.exit(main(parser.parse_args()))
