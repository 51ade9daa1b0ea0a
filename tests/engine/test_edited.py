"""A sync after a few edits: only what changed is read, and the table of documents comes from the one before."""

from __future__ import annotations

import os
import random
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from helpers import Home
from surefind.base.protocols import SKETCH
from surefind.engine.store import table as tables
from surefind.engine.store.backends.local import LocalBackend
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.indexes import table_key
from surefind.engine.store.table import ChunkTable
from surefind.engine.store.versions import Member


def page(metadata: str, *words: str) -> str:
    sections = "\n\n".join(f"# {word}\n\n" + f"{word} text. " * 40 for word in words)
    return f"---\n{metadata}\n---\n\n{sections}\n" if metadata else f"{sections}\n"


def stored(home: Home) -> tuple[ChunkTable, ChunkTable]:
    """The table of the current set as the sync made it, and as it is built from all rows of the catalogue."""
    catalogue = Catalogue(home.folder / ".surefind", readonly=True)
    number = catalogue.snapshot_id()
    backend = LocalBackend(catalogue)
    with home.open() as kb:
        layout = str(kb.settings.layout)
    made = backend.indexes.read(table_key(number, layout), ChunkTable.load)
    rows = backend.rows.rows(backend.rows.layout_id(layout), number)
    built = ChunkTable.build(layout, catalogue.members(number), rows, ())
    catalogue.close()
    return made, built


def assert_same(home: Home) -> None:
    made, built = (dict(vars(one)) for one in stored(home))
    for name in ("rows", "versions"):
        assert np.array_equal(made.pop(name), built.pop(name)), name
    columns = [{key: asdict(column) for key, column in one.pop("columns")._columns.items()} for one in (made, built)]
    assert repr(columns[0]) == repr(columns[1])
    assert made == built


@pytest.fixture
def edits(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each table that was wanted, whether it was made from the one before."""
    seen: list[bool] = []
    real = LocalBackend._edited

    def edited(self: LocalBackend, *given: object) -> ChunkTable | None:
        found = real(self, *given)
        seen.append(found is not None)
        return found

    monkeypatch.setattr(LocalBackend, "_edited", edited)
    return seen


@pytest.fixture
def five(home: Home) -> Home:
    for i in range(5):
        head = f"owner: Team {i % 2}\n" + ("acl: [staff]" if i == 3 else "")
        home.write(f"docs/{i}.md", page(head.strip(), f"first{i}", f"second{i}", f"third{i}"))
    home.sync("docs")
    return home


@pytest.mark.parametrize(
    ("name", "text", "fast"),
    [
        ("docs/2.md", page("owner: Team 0", "first2", "changed2", "third2"), True),
        ("docs/0.md", page("owner: Team 0", "first0"), True),
        ("docs/4.md", page("owner: Team 0", *(f"part{i}" for i in range(9))), True),
        ("docs/3.md", page("owner: Team 1\nacl: [staff]", "changed3"), True),
        ("docs/3.md", page("owner: Team 1\nacl: [board]", "changed3"), False),
        ("docs/3.md", page("owner: Team 1", "changed3"), False),
        ("docs/1.md", page("owner: Team 7", "first1", "second1", "third1"), False),
        ("docs/new.md", page("", "new"), False),
    ],
    ids=["a section", "fewer", "more", "restricted", "other group", "now public", "metadata", "new file"],
)
def test_table_after_one_edit_is_the_one_that_is_built(
    five: Home, edits: list[bool], name: str, text: str, fast: bool
) -> None:
    five.write(name, text, age=30)
    five.sync()
    assert edits == [fast]
    assert_same(five)


def test_document_that_becomes_restricted_is_restricted_at_once(five: Home) -> None:
    five.write("docs/2.md", page("owner: Team 0\nacl: [board]", "secret2"), age=30)
    five.sync()
    assert five.found("secret2") == []


def test_document_without_a_chunk_has_no_place_to_be_edited_at(five: Home, edits: list[bool]) -> None:
    five.write("docs/2.md", "---\nowner: Team 0\n---\n", age=30)
    five.sync()
    five.write("docs/2.md", page("owner: Team 0", "again2"), age=20)
    five.sync()
    assert_same(five)
    assert five.found("again2") == ["2.md"]


def test_many_edits_one_after_the_other(five: Home) -> None:
    dice = random.Random(3)
    for step in range(12):
        for _ in range(dice.randint(1, 3)):
            which = dice.randrange(5)
            words = [f"w{dice.randrange(30)}" for _ in range(dice.randint(1, 4))]
            five.write(f"docs/{which}.md", page(f"owner: Team {which % 2}", *words), age=40 - step)
        if step == 6:
            (five.docs / "1.md").unlink(missing_ok=True)
        five.sync()
        assert_same(five)


def test_texts_that_repeat_keep_their_ids_apart(five: Home) -> None:
    five.write("docs/2.md", page("owner: Team 0", "same", "same", "same"), age=30)
    five.sync()
    assert_same(five)


def test_chunks_with_one_id_are_left_to_the_build(five: Home) -> None:
    table, _ = stored(five)
    before = _member(five, "2.md")
    after = before._replace(version=before.version + 1000, content="0" * 32)
    rows = table.rows[:, table.rows[0] == before.version].T.copy()
    rows[:, 0] = after.version
    assert table.edited([before], [after], rows) is not None
    rows[0, 2] = table.rows[2, table.rows[0] != before.version][0]
    assert table.edited([before], [after], rows) is None


def test_table_of_an_earlier_release_is_not_edited(five: Home) -> None:
    table, _ = stored(five)
    assert table.edited([], [], np.zeros((0, 7), np.int64)) is not None
    old = ChunkTable(**{**vars(table), "contents": None})
    assert old.edited([], [], np.zeros((0, 7), np.int64)) is None


@pytest.mark.parametrize("documents", [SKETCH // 2, SKETCH, SKETCH + 1, 3 * SKETCH])
def test_sketch_after_an_edit_is_that_of_all_documents(five: Home, documents: int) -> None:
    table, _ = stored(five)
    names, contents = [f"d{i:06}" for i in range(documents)], [f"{i:032x}" for i in range(documents)]
    sketch_of_all = tables._sketch(tables._hashes(names, contents))
    whole = ChunkTable(**{**vars(table), "names": names, "contents": contents, "sketch": sketch_of_all})
    one = _member(five, "2.md")
    for i in range(0, documents, 97):
        before = one._replace(document=names[i], content=contents[i])
        after = before._replace(content="x")
        sketch = whole._sketch_with([before], [after])
        now = [*contents[:i], "x", *contents[i + 1 :]]
        expected = tables._sketch(tables._hashes(names, now))
        assert sketch == expected or (sketch is None and before_in_sketch(whole, before))


def before_in_sketch(table: ChunkTable, member: Member) -> bool:
    (value,) = tables._hashes([member.document], [member.content]).tolist()
    return value in table.sketch


def _member(home: Home, document: str) -> Member:
    catalogue = Catalogue(home.folder / ".surefind", readonly=True)
    try:
        return next(one for one in catalogue.members(catalogue.snapshot_id()) if one.document == document)
    finally:
        catalogue.close()


# ---------------------------------------------------------------- which files are read


def test_file_that_was_read_within_the_tick_of_its_change_is_missed_when_it_is_gone(home: Home) -> None:
    home.write("docs/a.md", "alpha", age=0)
    home.write("docs/b.md", "bravo")
    home.sync("docs")
    (home.docs / "a.md").unlink()
    assert home.sync().removed == 1
    assert home.found("alpha") == []


def test_retired_document_whose_file_is_gone_is_counted_as_removed(five: Home) -> None:
    with five.open() as kb:
        kb.retire("2.md")
    assert five.sync().unchanged == 5
    (five.docs / "2.md").unlink()
    assert five.sync().removed == 1


def test_file_read_by_another_reader_is_read_again(home: Home) -> None:
    home.write("docs/rows.csv", "question,answer\nalpha,bravo\n")
    home.write("docs/a.md", "alpha")
    home.sync("docs")
    assert home.sync().unchanged == 2
    home.configure((home.folder / "surefind.toml").read_text() + '\n[sync]\nreaders = ["csv(encoding=utf-8)"]\n')
    report = home.sync()
    assert (report.changed, report.unchanged) == (1, 1)


def test_names_that_are_no_text_do_not_disturb_the_others(home: Home) -> None:
    home.write("docs/a.md", "alpha")
    Path(os.fsdecode(os.fsencode(home.docs) + b"/bad\xff.md")).write_text("bad")
    home.sync("docs")
    home.write("docs/a.md", "bravo", age=30)
    report = home.sync()
    assert (report.changed, len(report.problems)) == (1, 1)


def test_few_of_many_rows_are_read(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(50):
        home.write(f"docs/{i}.md", f"word{i}")
    home.sync("docs")
    home.write("docs/7.md", "changed", age=30)
    read: list[int] = []
    real = Catalogue.files
    monkeypatch.setattr(Catalogue, "files", lambda *given: read.append(len(found := real(*given))) or found)
    assert home.sync().changed == 1
    assert read == [1]
