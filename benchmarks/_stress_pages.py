"""The documents of core_stress.py, and the check of an answer against what its generation must show.

Every page has a unique marker, and every version of a page a unique revision. Access and filters are computed here
independently of the code under test.
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
from surefind.kb.sample import sample_folder

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
