"""The difference of two texts: right for every pair, and bounded in time."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import surefind
from cases import each
from surefind.kb.drafts import difference as differences
from surefind.kb.drafts.difference import DiffLine, difference, matches, unified

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "a b", "a c d"]), max_size=12).map("\n".join)


def shown(lines: list[DiffLine]) -> list[str]:
    mark = {"gone": "-", "new": "+", "same": " ", "skipped": "…"}
    return [mark[line.kind] + line.text for line in lines]


def check_both_are_read_back(before: str, after: str) -> None:
    lines = difference(before, after, context=None)
    assert [line.text for line in lines if line.kind != "new"] == before.splitlines()
    assert [line.text for line in lines if line.kind != "gone"] == after.splitlines()
    assert [line.old for line in lines if line.old] == list(range(1, len(before.splitlines()) + 1))
    assert [line.new for line in lines if line.new] == list(range(1, len(after.splitlines()) + 1))


@given(LINES, LINES)
def test_both_texts_can_be_read_back(before: str, after: str) -> None:
    check_both_are_read_back(before, after)


@given(LINES, LINES, st.integers(0, 40))
def test_both_texts_can_be_read_back_however_few_steps_there_are(before: str, after: str, steps: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(differences, "MAX_STEPS", steps)
        check_both_are_read_back(before, after)


@given(st.lists(st.integers(0, 5), max_size=14), st.lists(st.integers(0, 5), max_size=14))
def test_no_shorter_difference_exists(one: list[int], other: list[int]) -> None:
    """Against the longest common subsequence by dynamic programming."""
    best = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            best[i + 1][j + 1] = best[i][j] + 1 if a == b else max(best[i][j + 1], best[i + 1][j])
    assert sum(size for _, _, size in matches(one, other)) == best[-1][-1]


def test_changed_words_are_marked() -> None:
    gone, new = difference("A wire costs 20 today.", "A wire costs 21 today.")
    assert gone.pieces == (("A wire costs ", False), ("20", True), (" today.", False))
    assert new.pieces == (("A wire costs ", False), ("21", True), (" today.", False))


def test_far_lines_are_skipped() -> None:
    before = [f"line {n}" for n in range(30)]
    after = [*before[:10], "other words", *before[11:]]
    lines = shown(difference("\n".join(before), "\n".join(after)))
    assert lines == [
        "…7", " line 7", " line 8", " line 9", "-line 10", "+other words", " line 11", " line 12", " line 13", "…16",
    ]  # fmt: skip
    assert difference("same\n", "same\n") == []


def _texts(kind: str) -> tuple[str, str]:
    chance = random.Random(1)
    if kind == "nothing alike":
        return "\n".join(f"a{n}" for n in range(20_000)), "\n".join(f"b{n}" for n in range(20_000))
    if kind == "two lines repeated":
        return ("\n".join(chance.choice("ab") for _ in range(20_000)) for _ in range(2))  # type: ignore[return-value]
    if kind == "shuffled":
        lines = [f"line {n}" for n in range(20_000)]
        return "\n".join(lines), "\n".join(chance.sample(lines, len(lines)))
    if kind == "long lines of few words":
        lines = ["\n".join(" ".join(chance.choices("abcdefgh", k=199)) for _ in range(200)) for _ in range(2)]
        return lines[0], lines[1]
    return "word " * 400_000, "other " * 400_000


@each("kind", ["nothing alike", "two lines repeated", "shuffled", "long lines of few words", "one long line"])
def test_large_texts_take_a_bounded_time(kind: str) -> None:
    before, after = _texts(kind)
    started = time.process_time()
    lines = difference(before, after, context=None)
    assert time.process_time() - started < 15  # 0.6 s; without a bound it takes minutes
    assert "\n".join(line.text for line in lines if line.kind != "gone") == after


def test_the_unified_difference_can_be_applied_by_patch(tmp_path: Path) -> None:
    before = "".join(f"line {number}\n" for number in range(40))
    after = before.replace("line 3\n", "").replace("line 20\n", "twenty\nmore\n") + "last\n"
    for one, other in ((before, after), (after, before), ("", after), (after, ""), ("a\n", "b\n")):
        (tmp_path / "page").write_text(one)
        made = "\n".join(unified(one, other, ("page", "page"))) + "\n"
        subprocess.run(["patch", "-s", str(tmp_path / "page")], input=made.encode(), check=True)
        there = (tmp_path / "page").read_text() if (tmp_path / "page").exists() else ""
        assert there == other
    assert unified("a", "a", ("page", "page")) == []


def test_nothing_else_compares_texts() -> None:
    """Suggestions for misspelt names use difflib as well, on single words."""
    root = Path(surefind.__file__).parent
    found = {str(path.relative_to(root)) for path in root.rglob("*.py") if "difflib" in path.read_text("utf-8")}
    assert found == {"base/errors.py", "kb/drafts/difference.py"}
