"""Hostile text: front matter, metadata, BEIR rows and Markdown that would cost more than a document may cost."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from cases import each
from helpers import Home
from surefind.base.errors import SourceError
from surefind.engine.ingest._access_list import split_front_matter

NINE = ", ".join


def aliases(levels: int = 8) -> str:
    """Nine times as large with each line: 9 ** levels values from some four hundred characters."""
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{i}: &a{i} [{NINE([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(rows)


def merges(levels: int = 9) -> str:
    rows = ["a0: &a0 {k: v}"]
    rows += [f"a{i}: &a{i} {{<<: [{NINE([f'*a{i - 1}'] * 6)}], k{i}: v}}" for i in range(1, levels)]
    return "\n".join(rows)


HOSTILE = {
    "brackets": ("a: " + "[" * 40_000, "nests values more than 20 deep"),
    "dashes": ("a:\n" + "- " * 40_000 + "x", "nests values more than 20 deep"),
    "indents": ("\n".join(" " * i + "a:" for i in range(400)), "nests values more than 20 deep"),
    "aliases": (aliases(), "repeats values by aliases until they are longer than 100,000 characters"),
    "merge keys": (merges(), "repeats values by aliases until they are longer than 100,000 characters"),
    "one long value, repeated": (
        f"a: &a {'x' * 40_000}\nb: [{NINE(['*a'] * 9)}]",
        "repeats values by aliases until they are longer than 100,000 characters",
    ),
    "itself": ("a: &a [*a]", "contains itself"),
    "long": ("a: " + "x" * 200_000, "is longer than 100,000 characters"),
}


@each("name", HOSTILE)
def test_hostile_front_matter_is_refused_at_once(name: str) -> None:
    block, reason = HOSTILE[name]
    started = time.process_time()
    with pytest.raises(SourceError, match=reason):
        split_front_matter(f"---\n{block}\n---\nText.\n")
    assert time.process_time() - started < 1


def test_front_matter_may_nest_a_little_and_use_an_alias() -> None:
    block = "groups: &g [a, b]\nacl: *g\nbase: &b {x: 1}\nmore: {<<: *b, y: [[[1]]]}"
    metadata, body = split_front_matter(f"---\n{block}\n---\nText.\n")
    assert metadata == {"groups": ["a", "b"], "acl": ["a", "b"], "base": {"x": 1}, "more": {"x": 1, "y": [[[1]]]}}
    assert body == "Text.\n"


def test_text_between_two_rules_is_no_front_matter_however_long() -> None:
    text = "---\n" + "Some prose without a colon.\n" * 10_000 + "---\nMore.\n"
    assert split_front_matter(text) == ({}, text)


def test_hostile_front_matter_is_listed_once_and_the_rest_is_read(home: Home) -> None:
    for number, (block, _) in enumerate(HOSTILE.values()):
        home.write(f"docs/{number}.md", f"---\n{block}\n---\nalpha\n")
    home.write("docs/good.md", "alpha")
    started = time.monotonic()
    result = home.sync("docs")
    assert time.monotonic() - started < 20
    assert len(result.problems) == len(HOSTILE) and home.found("alpha") == ["good.md"]
    assert all("front matter" in problem.reason for problem in result.problems)


# ---------------------------------------------------------------- BEIR rows and metadata


def rows(count: int, same: bool) -> str:
    return "\n".join(json.dumps({"_id": "1" if same else str(i), "text": f"alpha {i}"}) for i in range(count))


@pytest.mark.growth
def test_rows_that_all_have_one_id_cost_no_more_than_others(tmp_path: Path) -> None:
    def seconds(same: bool, folder: str) -> float:
        home = Home(tmp_path / folder)
        home.write("docs/corpus.jsonl", rows(3_000, same))
        started = time.process_time()
        assert home.sync("docs").documents == 3_000
        return time.process_time() - started

    seconds(False, "warm")
    assert seconds(True, "same") < 4 * seconds(False, "different")


def test_repeated_ids_are_numbered_anew_when_the_file_changes(home: Home) -> None:
    home.write("docs/corpus.jsonl", rows(3, same=True))
    home.sync("docs")
    home.write("docs/corpus.jsonl", rows(4, same=True), age=30)
    home.sync()
    assert sorted(home.found("alpha")) == ["1", "1#2", "1#3", "1#4"]


def test_metadata_may_not_nest_without_end(home: Home) -> None:
    deep = '{"_id": "1", "text": "alpha", "metadata": {"a": ' + "[" * 25 + "]" * 25 + "}}"
    home.write("docs/corpus.jsonl", deep)
    home.write("docs/good.md", "alpha")
    (problem,) = home.sync("docs").problems
    assert problem.reason == "has metadata that nests values more than 20 deep (document 1)"
    assert home.found("alpha") == ["good.md"]
