"""However an access list is written, its document is read and not public. Only what is damaged is kept out."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from acl_spellings import WAYS
from helpers import Home
from surefind import Access
from surefind.engine.files.readers import Readers

DAMAGED = "UTF-16 without a mark"
"""Text that cannot be decoded."""


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
        rows = {member.document: member.path for member in kb.catalogue.members(kb.catalogue.snapshot_id())}
        public = {_folder(rows[one.id]) for one in kb.documents(Access.public())}
        indexed = {_folder(rows[one.id]) for one in kb.documents(Access.owner())}
    return Outcome(public, indexed, {_folder(problem.path): problem.reason for problem in report.problems})


def _folder(path: str) -> str:
    return path.partition("/")[0]


@pytest.mark.parametrize("way", WAYS)
def test_access_list_restricts_the_document_or_leaves_it_to_the_owner(way: str, outcome: Outcome) -> None:
    folder = str(list(WAYS).index(way))
    assert folder not in outcome.public
    reason = outcome.problems.get(folder, "")
    if way.endswith(DAMAGED):
        assert folder not in outcome.indexed and reason == "looks binary (it contains NUL bytes)"
    else:
        assert folder in outcome.indexed and (not reason or reason.startswith("looks restricted: "))


LINES = {
    "md: a list without a closing bracket": "at line 3",
    "md: a mapping": "at line 2",
    "md: below the block": "line 4 is 'acl: [hr]'",
    "md: a bare line below a title": "line 3 is 'acl: hr'",
    "txt: TOML": "line 3 is 'acl = [\"hr\"]'",
    "rst: meta": "line 2 is ':acl: hr'",
    "html: a comment": "line 1 is",
    "html: the plural": "line 1 has a meta element 'acls'",
    "code: a comment": "line 1 is '# acl: [hr]'",
    "code: a docstring": "line 3 is 'acl: [hr]'",
}


@pytest.mark.parametrize("way", LINES)
def test_line_that_looks_like_a_list_is_named(way: str, outcome: Outcome) -> None:
    assert LINES[way] in outcome.problems[str(list(WAYS).index(way))]


def test_there_are_enough_ways() -> None:
    assert len(WAYS) >= 106


@pytest.mark.parametrize("key", ["\u0430cl", "acI", "\u00e1cl", "\uff41cl", "acls", "access_groups", "x-acl"])
@pytest.mark.parametrize("beside", ["title: Pay", "acl: [hr]", "acl: [public]"])
def test_key_that_folds_to_a_list_and_is_not_spelled_like_one_leaves_it_to_the_owner(
    tmp_path: Path, key: str, beside: str
) -> None:
    name, _, value = beside.partition(": ")
    record = {"text": "salary", name: value.strip("[]").split(","), key: ["board"]}
    for file, content in {
        "a.md": f"---\n{beside}\n{key}: [board]\n---\nsalary\n",
        "a.json": json.dumps(record),
        "a.html": f'<meta name="{name}" content="{value.strip("[]")}"><meta name="{key}" content="board"><p>salary</p>',
    }.items():
        path = tmp_path / file
        path.write_text(content, encoding="utf-8")
        reader = Readers().find(file)
        assert reader is not None
        assert [document.acl for document in reader.read(path, file)] == [("*",)], file


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
        unread = not groups and name == "a.md" and keys[0] == keys[1]  # the head has a line that was not read
        path = tmp_path / name
        path.write_text(content)
        reader = Readers().find(name)
        assert reader is not None
        assert [list(one.acl) for one in reader.read(path, name)] == [["*"] if unread else groups], content
