"""Damage in the file of drafts is noticed: no flipped bit changes a text or an access list of a draft in silence. Kills
are no damage."""

from __future__ import annotations

import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from drafts_editor import content
from drafts_faults import damage, fill, read_all
from exam_helpers import surefind
from helpers import Home
from surefind.base.errors import DamagedError
from surefind.kb.drafts import review
from surefind.kb.drafts.store import DraftStore
from surefind.kb.drafts.values import Base


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A drafts that nobody has open: everything is in drafts.db."""
    data = tmp_path_factory.mktemp("closed")
    drafts = DraftStore(data)
    fill(drafts)
    drafts.close()
    assert not (data / "drafts.db-wal").exists()
    return data


def check_faults(whole: Path, name: str, tmp_path: Path, faults: int, least: int) -> None:
    """Every fault in a file leaves each read as it was, or lets it say that the drafts is damaged."""
    shutil.copytree(whole, tmp_path / "right")
    right = read_all(tmp_path / "right")
    assert "damaged" not in right.values()
    noticed = 0
    for seed in range(faults):
        data = tmp_path / "data"
        shutil.copytree(whole, data)
        (data / name).write_bytes(damage((whole / name).read_bytes(), random.Random(seed)))
        for read, found in read_all(data).items():
            assert found in (right[read], "damaged"), f"{read} is wrong in silence with seed {seed}"
            noticed += found == "damaged"
        shutil.rmtree(data)
    assert noticed > least, "the test damages nothing"


def test_faults_in_the_file_change_no_text_in_silence(closed: Path, tmp_path: Path) -> None:
    check_faults(closed, "drafts.db", tmp_path, 100, 50)


def newest(data: Path) -> int:
    """How many lines the draft has that a killed process saved: one for each save."""
    drafts = DraftStore(data)
    try:
        draft = drafts.get(1)
        assert len(drafts.revision(1).text.splitlines()) == draft.revision == len(drafts.events(1))
        return draft.revision
    finally:
        drafts.close()


def saves_until_killed(data: Path, saves: int) -> int:
    """Kills a process after it has said that it saved so often. Returns how many saves it knew of."""
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[2])\n"
        "from drafts_editor import content; from surefind.kb.drafts.store import DraftStore\n"
        "from surefind.kb.drafts.values import Base\n"
        "drafts = DraftStore(Path(sys.argv[1]))\n"
        "if not drafts.count(): drafts.add('a.md', content('1'), 'ada', Base())\n"
        "while True:\n"
        "    found = drafts.revision(1)\n"
        "    text = found.text + f'\\n{found.number + 1}'\n"
        "    print(drafts.save(1, found.number, content(text), 'ada').revision, flush=True)\n"
    )
    words = [sys.executable, "-c", code, str(data), str(Path(__file__).parents[1])]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(saves):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    told = process.stdout.read().split()
    process.wait()
    return int(told[-1]) if told else saves


def test_kills_lose_no_save_and_are_no_damage(tmp_path: Path) -> None:
    drafts = DraftStore(tmp_path)
    for kill in range(20):
        saved = saves_until_killed(tmp_path, kill % 4 + 1)
        assert drafts.get(1).revision >= saved if kill % 2 else newest(tmp_path) >= saved
        assert list(drafts.problems()) == []
        if kill % 5 == 0:
            drafts.close()
            drafts = DraftStore(tmp_path)
    drafts.close()


def test_readers_and_writers_at_once_see_no_damage(tmp_path: Path) -> None:
    """In several processes and threads."""
    from multiprocessing import get_context

    from drafts_editor import edit

    drafts = DraftStore(tmp_path)
    number = drafts.add("fees.md", content("begin"), "ada", Base()).number
    run = get_context("spawn")
    writers = [run.Process(target=edit, args=(tmp_path, number, f"p{at}", 12)) for at in range(3)]
    failed: list[BaseException] = []

    def read() -> None:
        try:
            while any(process.is_alive() for process in writers):
                drafts.waiting(), drafts.events(number), drafts.authors(number), drafts.all_authors()
                review.comment(drafts, number, 1, 0, "bob", "Well?")
        except BaseException as error:
            failed.append(error)

    for process in writers:
        process.start()
    readers = [threading.Thread(target=read) for _ in range(3)]
    for thread in readers:
        thread.start()
    for one in [*writers, *readers]:
        one.join(120)
    assert not failed and [process.exitcode for process in writers] == [0, 0, 0]
    assert list(drafts.problems()) == [] and drafts.get(number).revision == 37
    drafts.close()


# ---------------------------------------------------------------- one kind of damage each


@pytest.fixture
def data(closed: Path, tmp_path: Path) -> Iterator[Path]:
    shutil.copytree(closed, tmp_path / "data")
    yield tmp_path / "data"


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM revisions WHERE draft = 2 AND number = 2",
        "DELETE FROM blobs WHERE sha256 = (SELECT text FROM revisions WHERE draft = 2 AND number = 2)",
        "UPDATE blobs SET data = x'00' WHERE sha256 = (SELECT text FROM revisions WHERE draft = 2 AND number = 2)",
        "UPDATE revisions SET acl = '[1]' WHERE draft = 2 AND number = 2",
        "UPDATE revisions SET author = 'eve' WHERE draft = 2 AND number = 2",
    ],
)
def test_what_a_revision_lost_is_named_with_the_way_back(data: Path, change: str) -> None:
    with sqlite3.connect(data / "drafts.db") as db:
        assert db.execute(change).rowcount == 1
    db.close()
    drafts = DraftStore(data)
    with pytest.raises(
        DamagedError, match=r"The file of drafts in .*drafts\.db is damaged: .*Restore the files drafts\.db\*"
    ):
        drafts.revision(2)
    assert drafts.revision(1).number == 2, "another draft is read"
    assert list(drafts.problems()) or "DELETE FROM revisions" in change
    drafts.close()


def test_drafts_can_be_moved_away_as_the_message_says(data: Path) -> None:
    for path in data.glob("drafts.db*"):
        path.unlink()
    drafts = DraftStore(data)
    assert drafts.count() == 0 and drafts.add("new.md", content("x"), "ada", Base()).number == 1
    drafts.close()


def test_drafts_on_a_read_only_disk_is_read(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = read_all(closed)

    def fails(*_: object) -> None:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    monkeypatch.setattr("surefind.engine.store.shared_file.open_to_write", fails)
    assert read_all(closed) == right


def test_doctor_names_damage_of_drafts(home: Home) -> None:
    home.write("docs/fees.md", "# Fees\n\nA wire costs 20.\n")
    home.sync("docs")
    with home.open() as kb:
        kb.drafts.add_bytes("fees.md", b"A wire costs 21.", author="ada")
    path = home.folder / ".surefind" / "drafts.db"
    path.write_bytes(path.read_bytes().replace(b"A wire costs 21.", b"A wire costs 22."))
    checks = {check["name"]: check for check in surefind("doctor", "--json", kb=home.folder).json["checks"]}
    assert checks["drafts"]["status"] == "failed" and "16 bytes does not match" in checks["drafts"]["says"]
