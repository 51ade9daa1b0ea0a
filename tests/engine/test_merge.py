"""The parts of an index are merged while others read and write, and whatever happens meanwhile, nothing is lost."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import Home
from surefind.base.errors import LockedError
from surefind.engine.store import indexes
from surefind.engine.store.indexes import Parts
from surefind.engine.write import writer

QUERIES = ("cash", "wire", "number3", "number7")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A knowledge base of twelve documents whose index has two parts."""
    for name, value in (("MIN_PARTED_CHUNKS", 2), ("BUILD_SHARE", 1), ("_MERGE_RATIO", 1), ("MERGE_SHARE", 10**6)):
        monkeypatch.setattr(indexes, name, value)
    made = Home(tmp_path)
    for i in range(12):
        made.write(f"docs/{i:02}.md", f"# Page {i}\n\ncash number{i}\n")
    made.sync("docs")
    made.write("docs/03.md", "# Page 3\n\ncash changed number3\n", age=50)
    made.sync()
    return made


def while_merging(home: Home, monkeypatch: pytest.MonkeyPatch, do: Callable[[], None]) -> list[str]:
    """Does something between the time that a merge has read the parts, in another thread, and its end. Returns what the
    merge returns. From then on, one chunk in two may be outside the largest part."""
    reached, go_on = threading.Event(), threading.Event()
    real = Parts.merge

    def held(self: Parts, *given: Any) -> None:
        real(self, *given)
        reached.set()
        assert go_on.wait(60)

    monkeypatch.setattr(Parts, "merge", held)
    with home.open() as kb, ThreadPoolExecutor(1) as pool:
        merging = pool.submit(kb.compact)
        try:
            assert reached.wait(60)
            do()
            monkeypatch.setattr(indexes, "MERGE_SHARE", 2)
        finally:
            go_on.set()
        merged = merging.result()
    monkeypatch.setattr(Parts, "merge", real)
    assert not (home.folder / ".surefind" / "merging").exists()
    return merged


def fresh_answers(home: Home) -> list[list[tuple[str, str, float]]]:
    fresh = Home(home.folder / "fresh")
    with fresh.open() as kb:
        kb.sync(home.docs)
    return fresh.answers(*QUERIES)


def newest_sizes(home: Home) -> list[int]:
    """The chunks of each part of the current index, with those that are gone."""
    with home.open() as kb:
        folders = [folder for folder in kb.folders(kb.reader().generation) if (folder / indexes.PARTS).exists()]
    return [len(np.load(path)) for folder in folders for path in sorted(folder.glob("places-*.npy"))]


def test_a_sync_runs_to_its_end_while_parts_are_merged(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def sync() -> None:
        home.write("docs/07.md", "# Page 7\n\ncash wire number7\n", age=40)
        assert home.sync().changed == 1
        assert home.answers(*QUERIES) == fresh_answers(home)

    assert while_merging(home, monkeypatch, sync) == ["bm25"], "all but one document are as they were"
    assert home.answers(*QUERIES) == fresh_answers(home)
    assert newest_sizes(home)[0] == 12, "a reader may be using the parts, so they stay"
    home.write("docs/08.md", "# Page 8\n\ncash wire number8\n", age=30)
    home.sync()
    assert newest_sizes(home) == [12, 2], "the merged part, and one with what has changed since"
    assert home.answers(*QUERIES) == fresh_answers(home)


def test_two_syncs_and_a_rollback_may_happen_meanwhile(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def change() -> None:
        for number, age in ((7, 40), (8, 30)):
            home.write(f"docs/{number:02}.md", f"# Page {number}\n\ncash wire number{number}\n", age=age)
            home.sync()
        with home.open() as kb:
            kb.rollback(kb.generations()[-3].number)

    assert while_merging(home, monkeypatch, change) == ["bm25"]
    assert home.sync().changed == 2, "the rollback showed what the folders held before"
    assert home.answers(*QUERIES) == fresh_answers(home)


def test_a_merge_of_which_too_little_fits_is_thrown_away(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def change() -> None:
        for i in range(10):
            home.write(f"docs/{i:02}.md", f"# Page {i}\n\ncash wire number{i}\n", age=40)
        home.sync()

    before = while_merging(home, monkeypatch, change)
    assert before == []
    home.write("docs/10.md", "# Page 10\n\nwire\n", age=30)
    home.sync()
    assert home.answers(*QUERIES) == fresh_answers(home)


def test_only_one_process_merges_at_a_time(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def merge_too() -> None:
        with home.open() as kb, pytest.raises(LockedError, match="is merging the parts"):
            kb.compact()

    assert while_merging(home, monkeypatch, merge_too) == ["bm25"]
    with home.open() as kb:
        assert kb.compact() == [], "it is done"


def test_a_writer_that_does_not_end_costs_the_merge_and_nothing_else(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_WAIT_SECONDS", 0.0)
    before = home.answers(*QUERIES)
    with home.open() as kb, home.open() as other:
        with other._writers.change(), pytest.raises(LockedError, match="is writing"):
            kb.compact()
        assert kb.compact() == ["bm25"]
    assert home.answers(*QUERIES) == before


KILLED = """
import os, signal, sys
from surefind import KnowledgeBase
from surefind.engine.store import indexes
indexes.MERGE_SHARE = 10**6
real = indexes.Parts.{method}
def dying(self, *given):
    real(self, *given)
    os.kill(os.getpid(), signal.SIGKILL)
indexes.Parts.{method} = dying
KnowledgeBase.open(sys.argv[1]).compact()
"""


@pytest.mark.parametrize("method", ["merge", "take_merged"])
def test_a_killed_merge_leaves_what_the_next_writer_deletes(home: Home, method: str) -> None:
    before = home.answers(*QUERIES)
    killed = subprocess.run([sys.executable, "-c", KILLED.format(method=method), home.folder], capture_output=True)
    assert killed.returncode == -9, killed.stderr.decode()
    left = home.folder / ".surefind" / "merging"
    assert [*left.iterdir()] if method == "merge" else not [*left.iterdir()]
    assert home.answers(*QUERIES) == before
    home.write("docs/07.md", "# Page 7\n\ncash wire number7\n", age=40)
    home.sync()
    assert not left.exists()
    assert home.answers(*QUERIES) == fresh_answers(home)
    with home.open() as kb:
        assert kb.compact() == ["bm25"]
