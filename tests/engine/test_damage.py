"""Damage in the catalogue is noticed: no flipped byte changes a text, an access list or metadata in silence."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drafts_faults import damage
from exam_helpers import surefind
from helpers import Home
from surefind import Access
from surefind.base.errors import DamagedError, NotBuiltError, StoreError
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.chunks import ChunkRows
from surefind.engine.store.database import text_checksum
from surefind.kb.changes import compare, compare_texts
from surefind.kb.integrity import problems
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
    """Changes the catalogue behind the back of its checksums."""
    with sqlite3.connect(catalogue_of(home)) as db:
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


def shown(result: Any) -> list[tuple[Any, ...]]:
    return [(hit.document, hit.title, hit.text, hit.metadata, hit.path, hit.headings) for hit in result.hits]


READS: dict[str, Callable[[Any], Any]] = {
    "public": lambda kb: shown(kb.search("common shift", Access.public())),
    "hr": lambda kb: shown(kb.search("common shift", Access.of("hr"))),
    "earlier": lambda kb: shown(kb.reader_of(1).search("alpha", Access.public(), kb.pipeline("words"))),
    "documents": lambda kb: kb.documents(Access.of("hr")),
    "access": decisions,
    "text": lambda kb: [kb.reader().document(name, Access.of("hr")) for name in ("open.md", "closed.md", "long.md")],
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


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (b'["hr"]', b'["hs"]', r"closed\.md"),
        (b"closed.md", b"opened.md", r"opened\.md"),  # its path, by which rules decide who may read it
        (b"Closed", b"Opened", r"closed\.md"),
    ],
)
def test_changed_access_list_path_or_title_is_noticed_before_it_is_shown(
    base: Home, old: bytes, new: bytes, says: str
) -> None:
    replace(base, old, new)
    with pytest.raises(DamagedError, match=says):
        base.found("beta", groups=["hr"])
    with base.open() as kb, pytest.raises(DamagedError, match=says):
        decisions(kb)
    assert found_problems(base)
    if old != b"closed.md":  # the file of the renamed document is read again
        base.write("docs/new.md", "delta common")
        with pytest.raises(DamagedError, match=says):
            base.sync()  # which makes the table by which access is decided


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
    ((layout,),) = catalogue.db.execute("SELECT id FROM layouts")
    with pytest.raises(DamagedError, match=r"the chunks of 'long\.md'"):
        rows.rows(layout, catalogue.snapshot_id())
    catalogue.close()


def test_lost_member_is_noticed(base: Home) -> None:
    execute(base, "DELETE FROM members WHERE version = 1")
    assert any("the list of the documents of a generation" in found for found in found_problems(base))
    with pytest.raises(DamagedError, match="the list of the documents of a generation"):
        base.sync()


@pytest.mark.parametrize(
    "changed",
    ["title = CAST(title AS BLOB)", "metadata = NULL", "length = length + 1", "length = length + 0.5", "acl = '[]'"],
)
def test_every_value_that_a_digest_covers_is_compared(base: Home, changed: str) -> None:
    execute(base, f"UPDATE versions SET {changed} WHERE id = 'closed.md'")
    with pytest.raises(DamagedError, match=r"closed\.md.* does not match its checksum"):
        base.found("beta", groups=["hr"])


def test_separator_in_a_value_is_no_damage(base: Home) -> None:
    """What separates values in a checksum."""
    base.write("docs/separator.md", "# Unit\x1fseparator\n\nSome text about delta.\n")
    base.sync("docs")
    base.sync("docs")
    assert base.found("delta")


def test_content_hash_is_checked(base: Home) -> None:
    """Text that matches its checksum, but not the document that was read."""
    with sqlite3.connect(catalogue_of(base)) as db:
        (place,) = db.execute("SELECT place FROM texts WHERE text LIKE '%gamma%'").fetchone()
        text = "# Open\n\nother common"
        db.execute("UPDATE texts SET text = ?, checksum = ? WHERE place = ?", (text, text_checksum(place, text), place))
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


def test_catalogue_of_an_earlier_time_is_brought_up_to_date(base: Home) -> None:
    """As from a backup: it is whole, and the next sync reads what has changed since."""
    earlier = catalogue_of(base).read_bytes()
    base.write("docs/new.md", "delta common")
    base.sync()
    catalogue_of(base).write_bytes(earlier)
    assert base.found("delta") == [] and base.found("gamma") == ["open.md"]
    base.sync()
    assert base.found("delta") == ["new.md"]


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
