"""Draws processor time and memory of every step against the number of passages, and fails where one grows faster.

    python benchmarks/growth.py DATA WORK                     1,000, 10,000 and 100,000 passages
    python benchmarks/growth.py DATA WORK --sizes 1000,10000,100000,1000000
    python benchmarks/growth.py DATA WORK --page              the page again, from what is stored

DATA and WORK are those of `scale.py`, which makes the passages. Every step is a process of its own, as a user would run
it; its children count. Of the steps that repeat something (search, serve) the time of one is given, without the start.
The exponent of a step between two sizes is log(t₂/t₁) / log(n₂/n₁): 1 is in proportion. The command ends with 1 if an
exponent of time or memory is above 1.1. It stores what it measured in WORK/growth.json and draws WORK/growth.svg.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import scale
from _shared import machine
from scale import Size

HIGHEST = 1.1
"""The exponent above which a step grows too fast."""
SEARCHES = 100
PER_FAMILY = 40
STEPS = ("sync", "one changed file", "one search", "exam", "bench", "serve: start", "serve: one search")
COLOURS = ("#1b6ac9", "#c2410c", "#15803d", "#7c3aed", "#b45309", "#0e7490", "#be185d")

Figures = dict[str, tuple[float, float]]
"""Processor seconds and peak memory in MB, by step."""


def measured(size: Size) -> Figures:
    """Runs every step once on a corpus of this size, from nothing."""
    for folder in (size.docs, size.home()):
        shutil.rmtree(folder, ignore_errors=True)
    scale.corpus(size)
    size.home()
    figures = {"sync": _command(size, "sync", str(size.docs))}
    changed = size.docs / "000" / "000005.md"
    changed.write_text(scale._file(5, size.sections, size.texts(), random.Random(size.passages)), encoding="utf-8")
    figures["one changed file"] = _command(size, "sync")
    figures["one search"] = _searches(size)
    exam = ["exam", "generate", "--per-family", str(PER_FAMILY), "--as", "*", "--json"]
    figures["exam"] = _command(size, *exam)
    bench = ["bench", "--exam", "known-item", "-p", "bm25", "-p", "hybrid", "--as", "*", "--yes", "--json"]
    figures["bench"] = _command(size, *bench)
    figures["serve: start"], figures["serve: one search"] = _served(size)
    return figures


def _command(size: Size, *words: str) -> tuple[float, float]:
    process = subprocess.Popen(
        [sys.executable, "-m", "surefind", *words],
        cwd=size.home(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"surefind {' '.join(words)} ended with {os.waitstatus_to_exitcode(status)}.")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1000


def _searches(size: Size) -> tuple[float, float]:
    done = subprocess.run(
        [sys.executable, __file__, "--searches", str(size.work), str(size.passages)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    seconds, memory = json.loads(done.stdout.splitlines()[-1])
    return seconds, memory


def searches(size: Size) -> None:
    """Searches in this process; prints the processor seconds of one search and the peak memory."""
    from surefind import Access
    from surefind.kb import KnowledgeBase

    asked = _questions(size)
    with KnowledgeBase.open(size.home()) as kb:
        reader, pipeline = kb.reader(), kb.pipeline()
        reader.search(asked[0], Access.public(), pipeline)
        used = time.process_time()
        for text in asked:
            reader.search(text, Access.public(), pipeline)
        seconds = (time.process_time() - used) / len(asked)
    print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000]))


def _questions(size: Size) -> list[str]:
    queries = json.loads((size.work / "sentences.json").read_text(encoding="utf-8"))["queries"]
    return random.Random(scale.SEED).sample(queries, min(SEARCHES, len(queries)))


def _served(size: Size) -> tuple[tuple[float, float], tuple[float, float]]:
    """Starts a server, asks for the first answer and then for more of them."""
    call = [sys.executable, "-m", "surefind", "serve", "--port", "0"]
    process = subprocess.Popen(call, cwd=size.home(), stderr=subprocess.PIPE, text=True)
    assert process.stderr
    try:
        url = next(word for word in process.stderr.readline().split() if word.startswith("http://"))
        asked = _questions(size)
        _ask(url, asked[0])
        start = _used(process.pid)
        for text in asked:
            _ask(url, text)
        seconds, memory = _used(process.pid)
    finally:
        process.terminate()
        process.communicate()
    return start, ((seconds - start[0]) / len(asked), memory)


def _ask(url: str, text: str) -> None:
    body = json.dumps({"query": text}).encode()
    headers = {"Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(f"{url}/v1/search", body, headers), timeout=60).read()


def _used(pid: int) -> tuple[float, float]:
    """The processor seconds of a process and its children, and the sum of their peak memory in MB. Pages that they
    share count for each."""
    tree = [pid, *_children(pid)]
    return sum(map(_seconds, tree)), sum(map(_peak, tree))


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [number for child in map(int, listed) for number in (child, *_children(child))]


def _seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _peak(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1000


def exponents(sizes: list[int], values: list[float]) -> list[float]:
    """The exponent between each size and the next."""
    pairs = zip(sizes, values, sizes[1:], values[1:], strict=False)
    return [math.log(after / before) / math.log(large / small) for small, before, large, after in pairs]


def table(stored: dict[int, Figures]) -> tuple[str, list[str]]:
    """The table in Markdown, and a sentence for each step that grows too fast."""
    sizes = sorted(stored)
    heads = [f"{size:,}" for size in sizes]
    rows = [f"| | {' | '.join(heads)} | exponents |", "|---" * (len(sizes) + 2) + "|"]
    fast = []
    for i, (what, write) in enumerate((("", _time), (", memory", lambda mb: f"{mb:.0f} MB"))):
        for step in STEPS:
            values = [stored[size][step][i] for size in sizes]
            grown = exponents(sizes, values)
            rows.append(f"| {step}{what} | {' | '.join(map(write, values))} | {', '.join(f'{e:.2f}' for e in grown)} |")
            fast += [f"{step}{what} grows with the power {e:.2f} up to {n:,} passages."
                     for n, e in zip(sizes[1:], grown, strict=True) if e > HIGHEST]  # fmt: skip
    return "\n".join(rows), fast


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"


def drawing(stored: dict[int, Figures]) -> str:
    """Two panels with logarithmic axes: processor seconds and memory. A dotted line grows in proportion."""
    panels = [_panel(stored, 0, "processor seconds", 0), _panel(stored, 1, "peak memory, MB", 440)]
    key = [
        f'<rect x="890" y="{40 + 22 * i}" width="12" height="12" fill="{colour}"/>'
        f'<text x="908" y="{51 + 22 * i}">{step}</text>'
        for i, (step, colour) in enumerate(zip(STEPS, COLOURS, strict=True))
    ]
    style = "text{font:13px sans-serif;fill:#222}"
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1060 340" width="1060" height="340">'
        f'<style>{style}</style><rect width="1060" height="340" fill="#fff"/>{"".join([*panels, *key])}</svg>\n'
    )


def _panel(stored: dict[int, Figures], which: int, title: str, left: int) -> str:
    sizes = sorted(stored)
    values = [stored[size][step][which] for size in sizes for step in STEPS]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    first, last = math.log10(sizes[0]), math.log10(sizes[-1])

    def x(size: float) -> float:
        return left + 60 + 330 * (math.log10(size) - first) / ((last - first) or 1)

    def y(value: float) -> float:
        return 300 - 260 * (math.log10(value) - low) / ((high - low) or 1)

    parts = [f'<text x="{left + 60}" y="20" font-weight="bold">{title}</text>']
    for power in range(low, high + 1):
        parts.append(
            f'<line x1="{left + 60}" x2="{left + 390}" y1="{y(10**power)}" y2="{y(10**power)}" stroke="#ddd"/>'
        )
        parts.append(f'<text x="{left + 54}" y="{y(10**power) + 4}" text-anchor="end">{10**power:g}</text>')
    parts += [f'<text x="{x(size)}" y="320" text-anchor="middle">{size:,}</text>' for size in sizes]
    anchor = max(stored[sizes[-1]][step][which] for step in STEPS)
    start = max(anchor * sizes[0] / sizes[-1], 10**low)
    parts.append(
        f'<line x1="{x(start / anchor * sizes[-1])}" y1="{y(start)}" x2="{x(sizes[-1])}" y2="{y(anchor)}" '
        'stroke="#888" stroke-dasharray="3 4"/>'
    )
    for step, colour in zip(STEPS, COLOURS, strict=True):
        points = [(x(size), y(stored[size][step][which])) for size in sizes]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in points]
    return "".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs=2, type=Path, metavar="DATA WORK")
    parser.add_argument("--sizes", default="1000,10000,100000", help="numbers of passages")
    parser.add_argument("--page", action="store_true", help="draw what is stored")
    parser.add_argument("--searches", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.searches:
        size = Size(given.folders[0], int(str(given.folders[1])), 10)
        scale.declare(size.work)
        return searches(size)
    data, work = (folder.resolve() for folder in given.folders)
    work.mkdir(parents=True, exist_ok=True)
    scale.declare(work)
    kept = work / "growth.json"
    stored: dict[int, Figures] = {int(n): f for n, f in (json.loads(kept.read_text()) if kept.exists() else {}).items()}
    if not (work / "sentences.npy").exists():
        scale.sentences(data, work)
    for passages in () if given.page else map(int, given.sizes.split(",")):
        print(f"{passages:,} passages; load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
        stored[passages] = measured(Size(work, passages, 10))
        kept.write_text(json.dumps(stored), encoding="utf-8")
    (work / "growth.svg").write_text(drawing(stored), encoding="utf-8")
    shown, fast = table(stored)
    print(f"{machine('surefind', 'numpy')}\n\n{shown}", *fast, sep="\n")
    sys.exit(1 if fast else 0)


if __name__ == "__main__":
    main()
