"""However an access list is written, the file ends restricted, or it is kept out and listed. It is never public."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from acl_spellings import WAYS
from helpers import Home
from surefind import Access


@dataclass(frozen=True)
class Outcome:
    public: set[str]
    indexed: set[str]
    problems: dict[str, str]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Every way, each in a folder of its own, after one sync."""
    home = Home(tmp_path_factory.mktemp("ways"))
    for number, (name, content) in enumerate(WAYS.values()):
        home.write(f"docs/{number}/{name}", content)
    report = home.sync("docs")
    with home.open() as kb:
        rows = {member.document: member.path for member in kb.catalogue.members(kb.catalogue.contents())}
        public = {_folder(rows[one.id]) for one in kb.documents(Access.public())}
        indexed = {_folder(rows[one.id]) for one in kb.documents(Access.owner())}
    return Outcome(public, indexed, {_folder(problem.path): problem.reason for problem in report.problems})


def _folder(path: str) -> str:
    return path.partition("/")[0]


@pytest.mark.parametrize("way", WAYS)
def test_access_list_restricts_or_keeps_the_file_out(way: str, outcome: Outcome) -> None:
    folder = str(list(WAYS).index(way))
    assert folder not in outcome.public
    assert folder in outcome.indexed or outcome.problems[folder]


def test_there_are_enough_ways() -> None:
    assert len(WAYS) >= 106
