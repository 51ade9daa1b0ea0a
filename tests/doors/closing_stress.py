"""Closes and opens a knowledge base many times while threads use it: `closing_stress.py FOLDER CLOSES THREADS`.

The only error that a thread may see is `ClosedError`, or `LockedError` from a second writer. Anything else is printed,
and the process exits with 1. A crash ends it by a signal."""

from __future__ import annotations

import faulthandler
import itertools
import sys
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

from surefind import Access, KnowledgeBase
from surefind.base.errors import ClosedError, ConflictError, LockedError
from surefind.doors.http.service import Service
from surefind.kb.settings.serve import serve_settings

PUBLIC = Access.public()
counts: Counter[str] = Counter()
unexpected: list[str] = []


class Stress:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kb = KnowledgeBase.open(folder)
        self.ended = threading.Event()
        self.numbers = itertools.count()

    def search(self) -> None:
        hits = self.kb.search("wire cutoff", PUBLIC, k=3).hits
        assert len(hits) == 3, hits

    def sync(self) -> None:
        number = next(self.numbers)
        (self.folder / "docs" / f"{number % 4}.md").write_text(f"# Page\n\nThe wire cutoff changed {number} times.\n")
        self.kb.sync()

    def warm_up(self) -> None:
        kb = self.kb
        Service(kb, serve_settings(kb.settings.serve), ()).warm()
        kb.status()

    def write_drafts(self) -> None:
        kb = self.kb
        draft = kb.drafts.store.get(1)
        kb.drafts.save(1, draft.revision, f"# Draft\n\nText {next(self.numbers)}.\n".encode())
        assert kb.drafts.store.get(1).revision > draft.revision

    def repeat(self, name: str) -> None:
        work = getattr(self, name)
        while not self.ended.is_set():
            try:
                work()
                counts[name] += 1
            except (ClosedError, LockedError, ConflictError) as error:
                counts[f"{name}: {type(error).__name__}"] += 1
            except BaseException:
                unexpected.append(traceback.format_exc())

    def run(self, closes: int, threads: int) -> None:
        self.kb.drafts.add_bytes("draft.md", b"# Draft\n\nText.\n")
        self.search()  # compiles the kernels
        names = ["search"] * (threads - 6) + ["sync", "warm_up", "warm_up", "write_drafts", "write_drafts", "search"]
        started = [threading.Thread(target=self.repeat, args=(name,), daemon=True) for name in names]
        for thread in started:
            thread.start()
        for _ in range(closes):
            before, self.kb = self.kb, KnowledgeBase.open(self.folder)
            time.sleep(0.004)
            before.close()
        self.ended.set()
        for thread in started:
            thread.join(60)
        hanging = sum(thread.is_alive() for thread in started)
        self.kb.close()
        for text in unexpected[:3]:
            print(text, file=sys.stderr)
        print(f"{closes} closes, {len(unexpected)} errors, {hanging} hanging; {dict(counts)}")
        sys.exit(1 if unexpected or hanging else 0)


if __name__ == "__main__":
    faulthandler.enable()
    faulthandler.dump_traceback_later(280, exit=True)
    Stress(Path(sys.argv[1])).run(int(sys.argv[2]), int(sys.argv[3]))
