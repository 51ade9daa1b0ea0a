"""Kill `sync` with SIGKILL at random moments: nothing may be lost, and nothing half-written may be seen.

    python benchmarks/kill_sync.py [BM25_ROUNDS] [DENSE_ROUNDS]        (30 and 6)

A copy of examples/quillhaven is edited at random (files changed, added, removed), a process starts to sync it and is
killed after a random part of the time that this takes. Then the knowledge base must

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
from surefind import KnowledgeBase

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
    """The generation, and the hits with their scores."""
    with KnowledgeBase.open(folder) as kb:
        found = [kb.search(question, groups=["*"]).hits for question in QUESTIONS]
        return kb.snapshot().generation, [[(h.document, h.chunk, round(h.score, 5)) for h in hits] for hits in found]


def build(settings: str, folder: Path, docs: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "surefind.toml").write_text(settings)
    with KnowledgeBase.open(folder) as kb:
        kb.sync(docs)


def sync_and_kill(folder: Path, docs: Path, after: float | None) -> tuple[bool, float]:
    """Whether it was still at work when it was killed, and the seconds that it ran; without `after` it may end."""
    command = [sys.executable, "-c", SYNC, str(folder), str(docs)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout
    process.stdout.readline()  # it has started, opened the catalogue and begins to sync
    started = time.perf_counter()
    if after is not None:
        time.sleep(after)
        process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL, time.perf_counter() - started


def rounds(title: str, settings: str, count: int, chance: random.Random) -> int:
    """How many rounds held."""
    held = 0
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        docs, live = root / "docs", root / "live"
        shutil.copytree(EXAMPLE, docs)
        build(settings, live, docs)
        edit(docs, chance)
        _, usual = sync_and_kill(live, docs, None)
        for i in range(1, count + 1):
            before = answers(live)
            edit(docs, chance)
            after = chance.uniform(0, usual)
            killed, _ = sync_and_kill(live, docs, after)
            now = answers(live)
            build(settings, live, docs)
            shutil.rmtree(root / "fresh", ignore_errors=True)
            build(settings, root / "fresh", docs)
            whole, fresh = answers(live), answers(root / "fresh")
            committed = now[0] > before[0]
            good = now[1] == (fresh[1] if committed else before[1]) and whole[1] == fresh[1]
            held += good
            state = "committed" if committed else "before the commit"
            print(
                f"{title} {i:2}: {'killed' if killed else 'had ended'} at {after * 1000:5.0f} of {usual * 1000:.0f} ms, {state}: answers "
                f"{'whole' if good else 'WRONG'}, next sync equals a fresh build: {whole[1] == fresh[1]}",
                flush=True,
            )
    return held


def main(words: int, hybrid: int) -> None:
    print(machine("surefind"))
    chance = random.Random(time.time_ns())
    held = rounds("bm25", WORDS, words, chance) + rounds("hybrid", HYBRID, hybrid, chance)
    print(f"{held} of {words + hybrid} rounds held")
    sys.exit(held != words + hybrid)


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    main(*(given or [30, 6]))
