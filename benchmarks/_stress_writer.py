"""The writer of core_stress.py: makes generations and records what each must show."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from _stress_pages import GROUPS, STATUS, Generation, Page, Shown
from surefind import KnowledgeBase
from surefind.store.backends.local import LocalBackend
from surefind.store.catalogue import Catalogue
from surefind.store.lock import writer_lock

KEEP = 3
"""Generations to keep."""
FIRST, LEAST = 40, 30
"""The number of pages at the start, and the least at any time."""
HOLD = 5.0
"""Seconds for which the writer holds its lock, to see whether searches wait."""
TURNS = ("sync", "damage", "publish", "sync", "rollback")


@dataclass
class Writer:
    kb: KnowledgeBase
    docs: Path
    pages: list[Page]
    chance: random.Random
    files: dict[str, Page] = field(default_factory=dict)
    expected: dict[int, Generation] = field(default_factory=dict)
    spent: list[tuple[str, float, float]] = field(default_factory=list)
    """Each operation as (name, when it began, when it ended)."""
    problems: list[str] = field(default_factory=list)
    current: int = 0
    revision: int = 0

    def begin(self) -> None:
        for page in self.pages[:FIRST]:
            self._write(page)
        self._sync(self.docs)

    def turn(self, number: int) -> None:
        """Makes one new generation."""
        what = TURNS[number % len(TURNS)]
        if what == "publish":
            self._publish()
        elif what == "rollback":
            self._rollback()
        else:
            self._edit()
            self._sync()
            if what == "damage":
                self._damage(number // len(TURNS))

    def hold(self) -> tuple[float, float]:
        """Holds the lock and an open transaction, as a long sync does. Returns when it began and ended."""
        with writer_lock(self.kb.data):
            catalogue = Catalogue(self.kb.data)
            began = time.perf_counter()
            with catalogue.transaction():
                time.sleep(HOLD)
            ended = time.perf_counter()
            catalogue.close()
        return began, ended

    def finish(self) -> None:
        """Checks, after all readers have ended, that a sync deletes everything that is not kept."""
        self._edit()
        self._sync()
        kept = {one.contents for one in self.kb.generations()}
        if len(kept) > KEEP:
            self.problems.append(f"{len(kept)} sets of documents are kept, not {KEEP}")
        used = {key for key, *_ in LocalBackend(self.kb.catalogue).rows.indexes()}
        left = set(LocalBackend(self.kb.catalogue).indexes.list_keys()) - used
        if left:
            self.problems.append(f"{len(left)} index folders remain that no generation uses")

    def _edit(self) -> None:
        names = sorted(self.files)
        for name in self.chance.sample(names, 4):
            self._write(self.files[name])
        absent = [page for page in self.pages if page.name not in self.files]
        if absent and self.chance.random() < 0.5:
            self._write(self.chance.choice(absent))
        if len(names) > LEAST and self.chance.random() < 0.5:
            name = self.chance.choice(names)
            (self.docs / name).unlink()
            del self.files[name]

    def _sync(self, *paths: Path) -> None:
        with self._timed("sync"):
            report = self.kb.sync(*paths)
        before = self.expected.get(self.current, {})
        shown = {}
        for name, file in self.files.items():
            kept = before.get(name)
            shown[name] = kept if kept and kept.file == file else Shown(file, file)
        self._made(report.generation, shown)
        self.problems += [f"a sync could not read {one.path}: {one.reason}" for one in report.problems]

    def _publish(self) -> None:
        shown = dict(self.expected[self.current])
        name = self.chance.choice(sorted(shown))
        draft = self._revised(shown[name].page)
        path = self.docs.parent / "draft.md"
        path.write_text(draft.file, encoding="utf-8")
        with self._timed("draft and publish"):
            number = self.kb.drafts.publish(self.kb.drafts.add(path, name).number)
        kept = draft.groups or shown[name].page.groups  # a draft without a list keeps the list of its document
        shown[name] = Shown(replace(draft, groups=kept), shown[name].file)
        self._made(number, shown)

    def _rollback(self) -> None:
        earlier = self.chance.choice([one.number for one in self.kb.generations() if one.number != self.current])
        with self._timed("rollback"):
            self.kb.rollback(earlier)
        self._made(self.kb.catalogue.generation(), self.expected[earlier])

    def _damage(self, number: int) -> None:
        """Deletes one index of the newest generation, each kind in turn, and lets a sync build it again."""
        backend = LocalBackend(self.kb.catalogue)
        contents = self.kb.catalogue.snapshot_id()
        keys = sorted((spec, key) for key, of, _, spec in backend.rows.indexes() if of == contents)
        shutil.rmtree(backend.indexes.folder / keys[number % len(keys)][1])
        time.sleep(0.2)
        self._sync()
        self.spent[-1] = ("sync after damage", *self.spent[-1][1:])
        broken = [spec for spec, key in keys if not backend.indexes.sound(key)]
        self.problems += [f"a sync did not build the deleted index {spec} again" for spec in broken]

    def _write(self, page: Page) -> None:
        made = self.files[page.name] = self._revised(page)
        (self.docs / page.name).write_text(made.file, encoding="utf-8")

    def _revised(self, page: Page) -> Page:
        self.revision += 1
        groups, status = self.chance.choice(GROUPS), self.chance.choice(STATUS)
        return replace(page, revision=self.revision, groups=groups, status=status)

    def _made(self, number: int, shown: Generation) -> None:
        if self.expected.setdefault(number, shown) != shown:
            self.problems.append(f"a sync did not change generation {number}, but files had changed")
        self.current = number

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.spent.append((what, began, time.perf_counter()))


class Commits(threading.Thread):
    """Records when each generation was committed."""

    def __init__(self, data: Path) -> None:
        super().__init__(daemon=True)
        self._data = data
        self.at: dict[int, float] = {}
        self.over = threading.Event()

    def run(self) -> None:
        catalogue = Catalogue(self._data, readonly=True)
        while not self.over.wait(0.005):
            self.at.setdefault(catalogue.generation(), time.perf_counter())
        catalogue.close()
