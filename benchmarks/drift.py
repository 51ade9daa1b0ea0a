"""What the gate costs: syncs of ten changed documents of the sample, without the gate and with it, in turns.

    python benchmarks/drift.py KB [--rounds 5]
    python benchmarks/drift.py KB --damage QUESTIONS       deletes and cuts off ten gold documents; sync then

KB has the sample's documents in `docs/` and its questions as an exam:

    cp -r examples/quillhaven KB/docs && surefind sync docs && surefind exam import examples/questions.jsonl

Each round changes ten documents three times (one more line at their end) and syncs: without the gate; with the gate,
which asks the exam on both generations; with the gate again, which finds the answers on the earlier generation in the
cache. CPU seconds are those of this process and its children.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from pathlib import Path

from surefind.access import Access
from surefind.bench.gate import ExamGate
from surefind.kb import KnowledgeBase
from surefind.kb.gate import Gate, always_open


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kb", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--damage", type=Path, help="the exam's questions, as JSONL")
    given = parser.parse_args()
    if given.damage:
        damage(given.kb / "docs", given.damage)
        return
    files = sorted((given.kb / "docs").rglob("*.md"))[::11][:10]
    times: dict[str, list[tuple[float, float]]] = {"off": [], "on": [], "on, earlier side cached": []}
    with KnowledgeBase.open(given.kb) as kb:
        kb.search("warm up", Access.owner(), k=1)
        for number in range(given.rounds):
            for kind, found in times.items():
                for file in files:
                    with file.open("a", encoding="utf-8") as written:
                        written.write(f"\nReviewed in round {number}, {kind}.\n")
                found.append(timed(kb, always_open if kind == "off" else ExamGate(kb)))
    base = statistics.median(cpu for _, cpu in times["off"])
    for kind, found in times.items():
        wall, cpu = (statistics.median(one[i] for one in found) for i in (0, 1))
        spread = f"{min(one[1] for one in found):.2f} to {max(one[1] for one in found):.2f}"
        print(f"gate {kind}: {wall:.2f} s, CPU {cpu:.2f} s ({spread}), {cpu / base:.2f} times the CPU of off")
        print("  CPU of each sync:", *(f"{one[1]:.2f}" for one in found))


def damage(docs: Path, questions: Path) -> None:
    """Takes every eleventh gold document, ten in all: deletes one, cuts the next off after its tenth line, in turns."""
    rows = [json.loads(line) for line in questions.read_text(encoding="utf-8").splitlines()]
    gold = sorted({one["document"] for row in rows for one in row["gold"]})
    for number, name in enumerate(gold[::11][:10]):
        file = docs / name
        if number % 2 == 0:
            file.unlink()
        else:
            file.write_text("\n".join(file.read_text(encoding="utf-8").splitlines()[:10]) + "\n", encoding="utf-8")
        print("deleted" if number % 2 == 0 else "cut off", name)


def timed(kb: KnowledgeBase, gate: Gate) -> tuple[float, float]:
    started, before = time.perf_counter(), cpu()
    kb.sync(gate=gate)
    return time.perf_counter() - started, cpu() - before


def cpu() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    main()
