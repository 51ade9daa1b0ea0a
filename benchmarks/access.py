"""Measures what filters and access rules cost over many documents, and how two threads share a reader.

    python benchmarks/access.py data/train-pairs.jsonl.xz [--documents 50000]

Documents are real passages with front matter (six keys, one in ten restricted to a group); vectors are random unit
vectors, as in search_latency.py. For each access, it times the first use of its mask (resolved from cold), later uses,
and the hybrid query under the mask against the unfiltered one, in alternation. Then it times reading twenty passages of
one document of five million characters, and compares the throughput of one thread and of two on the same questions.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from _shared import machine, passages_and_questions
from search_latency import random_vectors
from surefind import Access, KnowledgeBase
from surefind.embed.minilm import MiniLM

QUERIES, ROUNDS = 60, 5
SETTINGS = """
[index]
chunk = "whole"
enrich = []
[search]
pipeline = "hybrid"
[pipelines.hybrid]
retrieve = ["bm25", "dense"]
fuse = "convex(alpha=0.5, missing=score)"
[[access]]
path = "004/**"
groups = ["night"]
"""
CASES = {
    "owner, no filter": Access.owner(),
    "public": Access.public(),
    "member of a group": Access.of("g3"),
    "status=approved": Access.owner(["status=approved"]),
    "owner!=team7": Access.owner(["owner!=team7"]),
    "effective>=2024-06-01": Access.owner(["effective>=2024-06-01"]),
    "number<=250 (1 in 200)": Access.owner(["number<=250"]),
    "public, three filters": Access.public(["status=approved", "year>=2022", "tags=a,b"]),
}


def write(folder: Path, texts: Sequence[str]) -> None:
    for i, text in enumerate(texts):
        path = folder / f"{i // 1000:03}" / f"{i:06}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        acl = f"acl: [g{i // 10 % 7}]\n" if i % 10 == 0 else ""
        head = (
            f"---\n{acl}status: {('draft', 'approved', 'approved')[i % 3]}\nyear: {2018 + i % 8}\nowner: team{i % 40}\n"
            f"effective: 20{18 + i % 8}-{1 + i % 12:02}-{1 + i % 28:02}\ntags: [{'abcde'[i % 5]}, t{i % 11}]\n"
            f"number: {i}\n---\n"
        )
        path.write_text(head + text.replace("\n---", "\n ---"), encoding="utf-8", errors="replace")


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def main(data: Path, documents: int) -> None:
    print(machine("surefind", "numba", "numpy"))
    encoder, MiniLM.embed = MiniLM.embed, random_vectors  # type: ignore[method-assign]
    texts, questions = passages_and_questions(data, documents, QUERIES)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "docs", texts)
        (folder / "surefind.toml").write_text(SETTINGS)
        with KnowledgeBase.open(folder) as kb:
            report = kb.sync(folder / "docs")
            print(f"{report.documents:,} documents, {report.chunks:,} passages, synced in {report.seconds:.0f} s")
        masks(folder)
        queries(folder, questions)
        MiniLM.embed = encoder  # type: ignore[method-assign]
        threads(folder, questions)
        MiniLM.embed = random_vectors  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as name:
        long_document(Path(name), texts)


def masks(folder: Path) -> None:
    """Times the masks, each in a view of its own, so that nothing is warm from another mask."""
    print(f"\n{'mask':28} {'first use':>10} {'later':>10} {'admitted':>9}")
    for name, access in CASES.items():
        with KnowledgeBase.open(folder) as kb:
            view = kb.reader().view
            first = timed(lambda view=view, access=access: view.withheld(access))  # type: ignore[misc]
            later = min(timed(lambda view=view, access=access: view.withheld(access)) for _ in range(20))  # type: ignore[misc]
            left = len(view.spans().names) - view.withheld(access)
        print(f"{name:28} {first:7.1f} ms {later:7.4f} ms {left:9,}")


def queries(folder: Path, questions: Sequence[str]) -> None:
    print(f"\n{'hybrid query':28} {'p50':>10} {'against no filter':>18}")
    with KnowledgeBase.open(folder) as kb:
        times: dict[str, list[float]] = {name: [] for name in CASES}
        for access in CASES.values():
            kb.search(questions[0], access, confidence="quick")
        for _ in range(ROUNDS):
            for question in questions:
                for name, access in CASES.items():  # in turn, so that other work on the machine affects all equally
                    times[name].append(timed(lambda q=question, a=access: kb.search(q, a, confidence="quick")))  # type: ignore[misc]
    base = float(np.median(times["owner, no filter"]))
    for name, found in times.items():
        print(f"{name:28} {np.median(found):7.2f} ms {np.median(found) / base:17.2f}x")


def threads(folder: Path, questions: Sequence[str]) -> None:
    """Compares one thread with two, with the real encoder for the questions; all threads ask the same questions."""
    access = Access.public()
    with KnowledgeBase.open(folder) as kb:
        for question in questions:
            kb.search(question, access, confidence="quick")

        def work() -> None:
            for question in questions:
                kb.search(question, access, confidence="quick")

        def rate(count: int) -> float:
            workers = [threading.Thread(target=work) for _ in range(count)]
            started = time.perf_counter()
            for one in workers:
                one.start()
            for one in workers:
                one.join()
            return count * len(questions) / (time.perf_counter() - started)

        ratios = []
        for _ in range(ROUNDS):
            one, two = rate(1), rate(2)
            ratios.append(two / one)
            print(f"threads: 1 gives {one:.0f} searches/s, 2 give {two:.0f}: {two / one:.2f}x", flush=True)
    print(f"two threads against one, median of {ROUNDS}: {np.median(ratios):.2f}x")


def long_document(folder: Path, texts: Sequence[str]) -> None:
    whole, size = [], 0
    for text in texts:
        whole.append(text)
        size += len(text)
        if size > 5_000_000:
            break
    (folder / "docs").mkdir()
    (folder / "docs/long.md").write_text("\n\n".join(whole), encoding="utf-8", errors="replace")
    (folder / "surefind.toml").write_text('[search]\npipeline = "words"\n[pipelines.words]\nretrieve = ["bm25"]\n')
    with KnowledgeBase.open(folder) as kb:
        kb.sync(folder / "docs")
        view = kb.reader().view
        ids = view.spans().ids
        chosen = ids[:: len(ids) // 20][:20].tolist()
        view.passages(chosen[:1], Access.owner())
        best = min(timed(lambda: view.passages(chosen, Access.owner())) for _ in range(10))
        print(f"\n20 passages of one document of {size:,} characters ({len(ids):,} chunks): {best:.1f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--documents", type=int, default=50_000)
    given = parser.parse_args()
    main(given.data, given.documents)
