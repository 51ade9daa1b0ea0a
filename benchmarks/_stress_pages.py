"""The documents of core_stress.py, what every generation of them must answer, and the check of one answer.

A page has a marker that no other page has, and a revision that no other version of a page has. Who may read it and what
a filter makes of it is written out here, and not asked of the code under test.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from surefind import Access
from surefind.sample import sample_folder

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
        """What stands below the front matter."""
        marker = marker_of(self.number)
        stamp = f"Revision {self.revision} of {marker}. The marker of this page is {marker}, and no other has {marker}."
        return f"\n# {self.title}\n\n{stamp}\n\n{self.body}\n"

    @property
    def file(self) -> str:
        acl = f"acl: [{', '.join(self.groups)}]\n" if self.groups else ""
        return f"---\nstatus: {self.status}\nrevision: {self.revision}\n{acl}---\n{self.text}"

    def visible(self, access: str) -> bool:
        """Whether this kind of access admits it."""
        readable = access == "owner" or not self.groups or (access.startswith("group") and "hr" in self.groups)
        return readable and (not access.endswith("filter") or self.status == "approved")


def name_of(number: int) -> str:
    return f"page-{number:03}.md"


def marker_of(number: int) -> str:
    """A word of no language, which no stemmer cuts."""
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
    """What its file held when it was taken in; a published draft takes the page's place and not the file's."""


Generation = dict[str, Shown]


class Search(NamedTuple):
    """One search and what came of it."""

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
    """What is wrong with an answer, given what its generation shows; empty if nothing is."""
    if shown is None:
        return "a generation that nobody committed"
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
        if not ranks or (ranks[0] and one.pipeline != "hybrid"):  # its vector may put a page second, not out of sight
            return "the page that was asked for is not first"
    if one.withheld != sum(not held.page.visible(one.access) for held in shown.values()):
        return "another count of withheld documents"
    return ""


def check(processes: Sequence[Sequence[Search]], expected: dict[int, Generation]) -> Counter[str]:
    """What was wrong, and how often."""
    found: Counter[str] = Counter()
    answers: dict[tuple[object, ...], object] = {}
    for searches in processes:
        done = [one for one in searches if not one.error]
        found["an earlier generation after a later one"] += _backwards(done)
        for one in done:
            wrong = wrong_in(one, expected.get(one.generation))
            asked = (one.generation, one.page, one.word, one.pipeline, one.access)
            if not wrong and answers.setdefault(asked, one.hits) != one.hits:
                wrong = "two answers to one question of one generation"
            found[wrong] += bool(wrong)
    return +found


def _backwards(done: Sequence[Search]) -> int:
    """Searches that began after another one of their process had ended, and saw an earlier generation than it."""
    ordered = sorted(done, key=lambda one: one.ended)
    newest = np.maximum.accumulate(np.array([one.generation for one in ordered], dtype=np.int64))
    before = np.searchsorted([one.ended for one in ordered], [one.began for one in ordered])
    return sum(int(at > 0 and newest[at - 1] > one.generation) for at, one in zip(before, ordered, strict=True))
