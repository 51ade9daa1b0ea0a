"""What core_stress.py needs: its documents, the check of an answer against what its generation must show, and the
writer that makes generations.

Every page has a unique marker, and every version of a page a unique revision. Access and filters are computed here
independently of the code under test.
"""

from __future__ import annotations

import random
import re
import shutil
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from surefind import Access, KnowledgeBase
from surefind.doors.cli.demo import sample_folder
from surefind.engine.store.backends.local import LocalBackend
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.lock import writer_lock

PAGES = 60
_CHARACTERS = 3000
_LETTERS = "bcfghjkmnpqrtvwxz"
_APPROVED = ["status=approved"]
ACCESSES = {
    "public": Access.public(),
    "group": Access.of("hr"),
    "owner": Access.owner(),
    "filter": Access.public(where=_APPROVED),
    "group and filter": Access.of("hr", where=_APPROVED),
}
GROUPS: tuple[tuple[str, ...], ...] = ((), (), (), ("hr",), ("audit",))
STATUS = ("approved", "approved", "obsolete")


@dataclass(frozen=True)
class Page:
    """One version of a document."""

    number: int
    title: str
    body: str
    revision: int = 0
    groups: tuple[str, ...] = ()
    status: str = "approved"

    @property
    def name(self) -> str:
        return name_of(self.number)

    @property
    def text(self) -> str:
        """The text below the front matter."""
        marker = marker_of(self.number)
        stamp = f"Revision {self.revision} of {marker}. The marker of this page is {marker}, and no other has {marker}."
        return f"\n# {self.title}\n\n{stamp}\n\n{self.body}\n"

    @property
    def file(self) -> str:
        acl = f"acl: [{', '.join(self.groups)}]\n" if self.groups else ""
        return f"---\nstatus: {self.status}\nrevision: {self.revision}\n{acl}---\n{self.text}"

    def visible(self, access: str) -> bool:
        """Whether this kind of access may read the page."""
        readable = access == "owner" or not self.groups or (access.startswith("group") and "hr" in self.groups)
        return readable and (not access.endswith("filter") or self.status == "approved")


def name_of(number: int) -> str:
    return f"page-{number:03}.md"


def marker_of(number: int) -> str:
    """A word that is in no language and that no stemmer changes."""
    first, second = divmod(number, len(_LETTERS))
    return f"zq{_LETTERS[first]}{_LETTERS[second]}zq"


def sample_pages() -> list[Page]:
    found = []
    for number, path in enumerate(sorted(sample_folder().rglob("*.md"))[:PAGES]):
        body = re.sub(r"\A---\n.*?\n---\n", "", path.read_text(encoding="utf-8"), flags=re.DOTALL).strip()
        body = re.sub(r"\A#.*\n", "", body)[:_CHARACTERS].rpartition("\n")[0].strip()
        found.append(Page(number, path.stem.replace("-", " "), body))
    return found


class Shown(NamedTuple):
    page: Page
    file: Page
    """The content of the file when it was synced; a published draft replaces the page, not the file."""


Generation = dict[str, Shown]


class Search(NamedTuple):
    """One search and its result."""

    began: float
    ended: float
    page: int
    word: str
    pipeline: str
    access: str
    generation: int = 0
    withheld: int = 0
    hits: tuple[tuple[str, int, int, int, object], ...] = ()
    """Document, start, end, checksum of the text, revision in the metadata."""
    error: str = ""


def wrong_in(one: Search, shown: Generation | None) -> str:
    """Says what is wrong with an answer, given what its generation shows; empty if nothing is."""
    if shown is None:
        return "a generation that was never committed"
    for document, start, end, checksum, revision in one.hits:
        held = shown.get(document)
        if held is None:
            return "a document that the generation does not have"
        if not held.page.visible(one.access):
            return "a document that the caller may not read"
        if zlib.crc32(held.page.text[start:end].encode()) != checksum or held.page.revision != revision:
            return "text or metadata of another generation"
    asked = shown.get(name_of(one.page))
    if asked and asked.page.visible(one.access):
        ranks = [rank for rank, hit in enumerate(one.hits) if hit[0] == asked.page.name]
        if not ranks or (ranks[0] and one.pipeline != "hybrid"):  # in a hybrid, vectors may rank the page lower
            return "the page that was asked for is not first"
    if one.withheld != sum(not held.page.visible(one.access) for held in shown.values()):
        return "a wrong count of withheld documents"
    return ""


def check(processes: Sequence[Sequence[Search]], expected: dict[int, Generation]) -> Counter[str]:
    """Counts each kind of wrong answer."""
    found: Counter[str] = Counter()
    answers: dict[tuple[object, ...], object] = {}
    for searches in processes:
        done = [one for one in searches if not one.error]
        found["an earlier generation after a later one"] += _backwards(done)
        for one in done:
            wrong = wrong_in(one, expected.get(one.generation))
            asked = (one.generation, one.page, one.word, one.pipeline, one.access)
            if not wrong and answers.setdefault(asked, one.hits) != one.hits:
                wrong = "two different answers to the same question in the same generation"
            found[wrong] += bool(wrong)
    return +found


def _backwards(done: Sequence[Search]) -> int:
    """Counts searches that saw an earlier generation than a search of the same process that had ended before."""
    ordered = sorted(done, key=lambda one: one.ended)
    newest = np.maximum.accumulate(np.array([one.generation for one in ordered], dtype=np.int64))
    before = np.searchsorted([one.ended for one in ordered], [one.began for one in ordered])
    return sum(int(at > 0 and newest[at - 1] > one.generation) for at, one in zip(before, ordered, strict=True))


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
