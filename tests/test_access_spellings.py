"""However an access list is written, the file ends restricted, or it is kept out and listed. It is never public."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from acl_spellings import WAYS
from helpers import Home
from surefind import Access
from surefind.files.readers import Readers


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


@pytest.mark.parametrize(
    ("lists", "groups"),
    [
        (["[hr]", "[public]"], ["hr"]),
        (["[hr, board]", "[board, audit]"], ["board"]),
        (["[hr]", "[board]"], ["*"]),
        (["[hr]", "[]", "[hr, public]"], ["hr"]),
        (["[public]", "[public]"], ["public"]),
        (["[hr]", "['*']"], ["*"]),
        (["[]", "[]"], []),
    ],
)
@pytest.mark.parametrize("keys", [("acl", "acl", "acl"), ("acl", "ACL", '"acl "')])
def test_several_lists_admit_who_is_in_all_of_them(
    tmp_path: Path, lists: list[str], groups: list[str], keys: tuple[str, ...]
) -> None:
    pairs = list(zip(keys, lists, strict=False))
    yaml = "".join(f"{key}: {value}\n" for key, value in pairs)
    fields = ", ".join(f"{json.dumps(key.strip(chr(34)))}: {value}" for key, value in pairs).replace("'", '"')
    for plain in ("hr", "board", "audit", "public"):
        fields = re.sub(rf"(?<=[\[ ]){plain}(?=[,\]])", f'"{plain}"', fields)
    files = {"a.md": f"---\n{yaml}---\nsalary\n", "a.json": f'{{"text": "salary", {fields}}}'}
    for name, content in files.items():
        if not groups and name == "a.md" and keys[0] == keys[1]:
            continue  # the head has a line that was not read, so the file is kept out
        path = tmp_path / name
        path.write_text(content)
        reader = Readers().find(name)
        assert reader is not None
        assert [list(one.acl) for one in reader.read(path, name)] == [groups], content
