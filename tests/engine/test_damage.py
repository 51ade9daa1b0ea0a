"""Damage in the catalogue is found: no flipped byte changes an answer in silence."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from desk_faults import damage
from exam_helpers import surefind
from helpers import Home
from surefind import Access
from surefind.base.errors import DamagedError, NotBuiltError, StoreError
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.checksums import register
from surefind.engine.store.chunks import ChunkRows
from surefind.engine.store.integrity import problems
from surefind.kb.changes import compare, compare_texts
from surefind.kb.rights import decisions
from surefind.lab.exam.model import Exam, ExamQuery, Judgment
from surefind.lab.exam.store import ExamStore

PARAGRAPH = "The teller counts the drawer twice and signs the sheet of the shift number"


@pytest.fixture
def base(home: Home) -> Home:
    """Two generations, a draft, and a document for one group."""
    home.write("docs/open.md", "# Open\n\nalpha common\n")
    home.write("docs/closed.md", "---\nacl: [hr]\n---\n# Closed\n\nbeta common\n")
    home.write("docs/long.md", "# Long\n\n" + "\n\n".join(f"{PARAGRAPH} {i}." for i in range(300)))
    home.sync("docs")
    home.write("docs/open.md", "# Open\n\ngamma common\n", age=30)
    home.sync("docs")
    draft = home.write("draft.md", "# Draft\n\nwritten by hand")
    with home.open() as kb:
        kb.drafts.add(draft, "open.md")
    return home


def catalogue_of(home: Home) -> Path:
    return home.folder / ".surefind" / "catalogue.db"


def replace(home: Home, old: bytes, new: bytes) -> None:
    """Damages the catalogue: replaces all occurrences of some bytes."""
    data = catalogue_of(home).read_bytes()
    assert old in data and len(old) == len(new)
    catalogue_of(home).write_bytes(data.replace(old, new))


def execute(home: Home, *statements: str) -> None:
    """Changes the catalogue behind the back of its checksums: no counter watches `texts`, `chunks` and `members`."""
    with sqlite3.connect(catalogue_of(home)) as db:
        register(db)
        for statement in statements:
            assert db.execute(statement).rowcount > 0
    db.close()


def found_problems(home: Home) -> list[str]:
    catalogue = Catalogue(home.folder / ".surefind", readonly=True)
    try:
        return list(problems(catalogue))
    finally:
        catalogue.close()


# ---------------------------------------------------------------- random faults

READS: dict[str, Callable[[Any], Any]] = {
    "public": lambda kb: kb.search("common shift", Access.public()).hits,
    "hr": lambda kb: kb.search("common shift", Access.of("hr")).hits,
    "earlier": lambda kb: kb.reader_of(1).search("alpha", Access.public(), kb.pipeline("words")).hits,
    "documents": lambda kb: kb.documents(Access.of("hr")),
    "access": decisions,
    "drafts": lambda kb: (kb.generations(), kb.desk.waiting(), kb.history("open.md")),
    "changes": lambda kb: (compare(kb.catalogue), compare_texts(kb.catalogue, "open.md")),
}


def read_all(home: Home) -> dict[str, str]:
    """What each read returns; "damaged" if it says so."""
    found = {}
    for name, read in READS.items():
        try:
            with home.open() as kb:
                found[name] = repr(read(kb))
        except StoreError as error:
            found[name] = "damaged"
            assert "catalogue" in str(error) or isinstance(error, NotBuiltError)
    return found


def test_random_faults_change_no_answer_in_silence(base: Home) -> None:
    whole = catalogue_of(base).read_bytes()
    right = read_all(base)
    assert "damaged" not in right.values()
    noticed = 0
    for seed in range(80):
        catalogue_of(base).write_bytes(damage(whole, random.Random(seed)))
        for name, found in read_all(base).items():
            assert found in (right[name], "damaged"), f"{name} is wrong with seed {seed}"
            noticed += found == "damaged"
    assert noticed > 80, "the test damages nothing"


# ---------------------------------------------------------------- one kind of damage each


def test_changed_text_is_named(base: Home) -> None:
    replace(base, b"gamma common", b"gamma comMon")
    with pytest.raises(DamagedError, match=r"the text of 'open\.md' is not intact.*move the files catalogue\.db\*"):
        base.found("common")
    assert any("open.md" in found for found in found_problems(base))


def test_changed_access_list_is_noticed(base: Home) -> None:
    replace(base, b'["hr"]', b'["hs"]')
    with base.open() as kb, pytest.raises(DamagedError, match=r"closed\.md"):
        decisions(kb)
    with pytest.raises(DamagedError, match=r"closed\.md"):
        base.sync()


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DELETE FROM texts WHERE text LIKE '%gamma%'", r"the text of 'open\.md'"),
        ("DELETE FROM chunks WHERE version = (SELECT max(row) FROM versions)", r"the chunks of 'open\.md'"),
    ],
)
def test_lost_rows_are_noticed(base: Home, statement: str, says: str) -> None:
    execute(base, statement)
    with pytest.raises(DamagedError, match=says):
        base.found("gamma")
    assert found_problems(base)


def test_changed_chunk_is_noticed(base: Home) -> None:
    """Its headings: no digest and no text covers them."""
    replace(base, b'["Open"]', b'["Oben"]')
    with pytest.raises(DamagedError, match=r"the chunks of 'open\.md'"):
        base.found("gamma")
    assert any("the chunks of version" in found for found in found_problems(base))


def test_lost_chunk_is_noticed_when_a_table_is_built(base: Home) -> None:
    """One of many of a document: a search for the others would not miss it."""
    execute(base, "DELETE FROM chunks WHERE seq = 3")
    catalogue = Catalogue(base.folder / ".surefind", readonly=True)
    rows = ChunkRows(catalogue.database)
    ((layout, _),) = catalogue.database.every("layouts")
    with pytest.raises(DamagedError, match=r"the chunks of 'long\.md'"):
        rows.rows(layout, catalogue.snapshot_id())
    catalogue.close()


def test_lost_member_is_noticed(base: Home) -> None:
    execute(base, "DELETE FROM members WHERE version = 1")
    with base.open() as kb, pytest.raises(DamagedError, match="the list of the documents of a generation"):
        kb.documents(Access.owner())
    with pytest.raises(DamagedError, match="the list of the documents of a generation"):
        base.sync()


def test_lost_version_and_lost_source_are_noticed(base: Home) -> None:
    data = catalogue_of(base).read_bytes()
    for table, read in (("versions", READS["drafts"]), ("sources", lambda kb: kb.status())):
        catalogue_of(base).write_bytes(data)
        with sqlite3.connect(catalogue_of(base)) as db:
            register(db)
            lost = db.execute(f"SELECT max(rowid) FROM {table}").fetchone()[0]
            db.execute(f"DELETE FROM {table} WHERE rowid = ?", (lost,))
            db.execute("UPDATE counters SET value = value + ? WHERE name = ?", (lost, table))
        db.close()
        with base.open() as kb, pytest.raises(DamagedError, match=f"the table {table} has lost rows"):
            read(kb)


@pytest.mark.parametrize(
    "damaged",
    [
        "title = CAST(title AS BLOB)",
        "author = NULL",
        "length = length + 1",
        "length = length + 0.5",
        "path = path || x'00'",
    ],
)
def test_every_value_of_a_version_is_checked_by_a_writer(base: Home, damaged: str) -> None:
    """A writer lets SQLite join the values of a row; a value of another type must not look like the one before."""
    with sqlite3.connect(catalogue_of(base)) as db:
        register(db)
        (checked,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'versions_changed'").fetchone()
        db.execute("DROP TRIGGER versions_changed")
        db.execute(f"UPDATE versions SET {damaged} WHERE id = 'closed.md'")
        db.execute(checked)
    db.close()
    with pytest.raises(DamagedError, match=r"closed\.md.* does not match its checksum"):
        base.sync()


def test_separator_in_a_value_is_no_damage(base: Home) -> None:
    """The values of such a row are not joined but checked one by one."""
    base.write("docs/separator.md", "# Unit\x1fseparator\n\nSome text about delta.\n")
    base.sync("docs")
    base.sync("docs")
    assert base.found("delta")


def test_damaged_row_is_not_sealed_again(base: Home) -> None:
    """A trigger writes the checksum of a changed row, so it first checks the row."""
    with sqlite3.connect(catalogue_of(base)) as db:
        register(db)
        db.execute("UPDATE versions SET checksum = checksum + 1 WHERE id = 'closed.md'")
        with pytest.raises(sqlite3.IntegrityError, match="a row of versions does not match its checksum"):
            db.execute("UPDATE versions SET state = 'retired' WHERE id = 'closed.md'")
    db.close()


def test_content_hash_is_checked(base: Home) -> None:
    """Text that matches its checksum, but not the document that was read."""
    with sqlite3.connect(catalogue_of(base)) as db:
        (place,) = db.execute("SELECT place FROM texts WHERE text LIKE '%gamma%'").fetchone()
        with pytest.raises(sqlite3.OperationalError, match="no such function: text_checksum"):
            db.execute("UPDATE texts SET text = 'other' WHERE place = ?", (place,))
        register(db)
        db.execute("UPDATE texts SET text = ? WHERE place = ?", ("# Open\n\nother common", place))
    db.close()
    (found,) = [found for found in found_problems(base) if "hash of its content" in found]
    assert "open.md" in found
    ran = surefind("doctor", kb=base.folder)
    assert ran.code == 1 and "failed   catalogue" in ran.out and "open.md" in ran.out


def test_sound_catalogue_has_no_problems(base: Home) -> None:
    assert found_problems(base) == []
    ran = surefind("doctor", kb=base.folder)
    assert ran.code == 0, ran.out
    assert "ok       catalogue        4 versions of documents match their checksums (" in ran.out and "MB/s" in ran.out


@pytest.mark.parametrize("begun", [False, True])
def test_first_sync_that_was_killed_is_no_damage(tmp_path: Path, begun: bool) -> None:
    """It leaves an empty catalogue, or one with tables and without a generation."""
    (tmp_path / ".surefind").mkdir()
    if begun:
        Catalogue(tmp_path / ".surefind").close()
    else:
        sqlite3.connect(tmp_path / ".surefind" / "catalogue.db").execute("PRAGMA journal_mode=WAL").connection.close()
    ran = surefind("doctor", kb=tmp_path)
    assert ran.code == 0, ran.out
    said = "The first sync was stopped" if begun else "There is no knowledge base here yet"
    assert f"indexes          {said}" in ran.out


# ---------------------------------------------------------------- files of different times


def test_catalogue_of_an_earlier_time_is_noticed(base: Home) -> None:
    earlier = catalogue_of(base).read_bytes()
    base.write("docs/new.md", "delta common")
    base.sync()
    catalogue_of(base).write_bytes(earlier)
    with pytest.raises(DamagedError, match="from an earlier time than the files beside it"):
        base.found("common")
    with pytest.raises(DamagedError, match="from an earlier time"):
        base.sync()
    (base.folder / ".surefind/session.json").unlink()
    base.sync()
    assert base.found("delta") == ["new.md"]


def test_damaged_mark_of_the_session_is_written_again(base: Home) -> None:
    path = base.folder / ".surefind/session.json"
    path.write_bytes(b"{")
    assert base.found("gamma") == ["open.md"]
    base.sync()
    assert path.read_text().startswith('{"checksum": ')


def test_table_of_another_time_is_not_used(base: Home) -> None:
    """A whole table, with the number of the set, but with other documents."""
    tables = base.folder / ".surefind/indexes"
    first, second = sorted(path for path in tables.iterdir() if path.name.startswith("table-"))
    shutil.rmtree(second)
    shutil.copytree(first, second)
    with pytest.raises(NotBuiltError, match="has other documents than the catalogue"):
        base.found("common")
    base.sync()
    assert base.found("gamma") == ["open.md"]


def test_catalogue_can_be_moved_away_and_filled_again(base: Home) -> None:
    store = ExamStore(base.folder / ".surefind/exams")
    store.save(Exam("mine", (ExamQuery("1", "gamma?", (Judgment("open.md"),)),)))
    before = base.answers("common", "shift")
    for path in base.folder.glob(".surefind/catalogue.db*"):
        path.rename(base.folder / path.name)
    base.write("docs/closed.md", "---\nacl: [hr]\n---\n# Closed\n\nepsilon common\n", age=20)
    base.sync("docs")
    assert base.found("epsilon", groups=["hr"]) == ["closed.md"]
    assert base.found("beta", groups=["hr"]) == []
    assert [len(hits) for hits in base.answers("common", "shift")] == [len(hits) for hits in before]
    assert store.load("mine").queries
