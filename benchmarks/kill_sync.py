"""Kills `sync` with SIGKILL at random moments: nothing may be lost, and nothing half-written may be visible.

    python benchmarks/kill_sync.py [BM25_KILLS] [HYBRID_KILLS]        (30 and 6)

A copy of examples/quillhaven is edited at random (files changed, added, removed); a process starts to sync it and is
killed after a random part of the usual time. (Hybrid kills use every fourth file, to save time.) Then the knowledge
base must

  1. open and answer exactly as before the edits (or, if the kill came after the commit, as after them);
  2. sync to the end, and answer exactly like a knowledge base that is built from nothing.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _shared import machine
from surefind import Access, KnowledgeBase

EXAMPLE = Path(__file__).parents[1] / "examples" / "quillhaven"
WORDS = '[search]\npipeline = "p"\n[pipelines.p]\nretrieve = ["bm25"]\n'
HYBRID = '[search]\npipeline = "p"\n[pipelines.p]\nretrieve = ["bm25", "dense"]\nfuse = "convex(alpha=0.3)"\n'
QUESTIONS = ["CTR filing deadline", "wire recall", "who may open the vault", "adverse action notice", "teller limits"]
SYNC = "import sys; from surefind import KnowledgeBase; kb = KnowledgeBase.open(sys.argv[1]); kb.catalogue; "
SYNC += "print('go', flush=True); kb.sync(sys.argv[2])"

Answers = list[list[tuple[str, str, float]]]


def edit(folder: Path, chance: random.Random) -> None:
    files = sorted(folder.rglob("*.md"))
    for path in chance.sample(files, chance.randint(1, 8)):
        path.write_text(path.read_text() + f"\n\nAmended {chance.random()}: the wire limit is now discussed here.\n")
    (folder / f"note-{chance.randrange(10**6)}.md").write_text(
        f"# Note\n\nThe vault opens at {chance.randrange(24)}.\n"
    )
    chance.choice(files).unlink()


def answers(folder: Path) -> tuple[int, Answers]:
    """Returns the generation, and the hits with their scores."""
    with KnowledgeBase.open(folder) as kb:
        found = [kb.search(question, Access.owner()) for question in QUESTIONS]
        hits = [[(hit.document, hit.id, round(hit.score, 5)) for hit in result.hits] for result in found]
        return found[0].generation, hits


def build(settings: str, folder: Path, docs: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "surefind.toml").write_text(settings)
    with KnowledgeBase.open(folder) as kb:
        kb.sync(docs)


def sync_and_kill(folder: Path, docs: Path, after: float | None) -> tuple[bool, float]:
    """Starts a sync and kills it after `after` seconds; None lets it finish. Returns whether it was killed while still
    running, and how many seconds it ran."""
    command = [sys.executable, "-c", SYNC, str(folder), str(docs)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout
    process.stdout.readline()  # it has started, opened the catalogue and begins to sync
    started = time.perf_counter()
    if after is not None:
        time.sleep(after)
        process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL, time.perf_counter() - started


def rounds(title: str, settings: str, kills: int, every: int, chance: random.Random) -> int:
    """Kills `kills` syncs and returns how many did no harm. A sync that ended before its kill does not count."""
    held = done = 0
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        docs, live, fresh = root / "docs", root / "live", root / "fresh"
        shutil.copytree(EXAMPLE, docs)
        for i, path in enumerate(sorted(docs.rglob("*.md"))):
            if i % every:
                path.unlink()
        build(settings, live, docs)
        edit(docs, chance)
        _, usual = sync_and_kill(live, docs, None)
        while done < kills:
            before = answers(live)
            edit(docs, chance)
            after = chance.uniform(0, usual)
            killed, _ = sync_and_kill(live, docs, after)
            now = answers(live)
            build(settings, live, docs)
            shutil.rmtree(fresh, ignore_errors=True)
            build(settings, fresh, docs)
            whole, expected = answers(live)[1], answers(fresh)[1]
            if not killed:
                continue
            committed = now[0] > before[0]
            answered = now[1] == (expected if committed else before[1])
            done += 1
            held += answered and whole == expected
            print(
                f"{title} {done:2}: killed at {after * 1000:5.0f} of {usual * 1000:.0f} ms, "
                f"{'after' if committed else 'before'} the commit; answers {'whole' if answered else 'WRONG'}; "
                f"next sync {'equals' if whole == expected else 'DIFFERS FROM'} a fresh build",
                flush=True,
            )
    return held


def main(words: int, hybrid: int) -> None:
    print(machine("surefind"))
    chance = random.Random(time.time_ns())
    held = rounds("bm25", WORDS, words, 1, chance) + rounds("hybrid", HYBRID, hybrid, 4, chance)
    print(f"{held} of {words + hybrid} kills did no harm")
    sys.exit(held != words + hybrid)


if __name__ == "__main__":
    main(*([int(text) for text in sys.argv[1:]] or [30, 6]))
