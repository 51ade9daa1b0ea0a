"""Files are written in one step, by one function: all of it or nothing."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

import pytest

import surefind
from surefind.base.disk.sealed import read_sealed, replace_folder, write_file, write_sealed


def test_the_permissions_stay_and_private_files_are_private(tmp_path: Path) -> None:
    path = tmp_path / "surefind.toml"
    write_file(path, "a")
    path.chmod(0o640)
    write_file(path, b"b")
    assert path.read_text() == "b" and path.stat().st_mode & 0o777 == 0o640
    write_file(path, "secret", private=True)
    assert path.stat().st_mode & 0o777 == 0o600


def test_another_name_of_the_old_file_keeps_its_content(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("old")
    os.link(tmp_path / "page.md", tmp_path / "other.md")
    write_file(tmp_path / "page.md", "new")
    assert (tmp_path / "other.md").read_text() == "old"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "exam.jsonl"
    write_file(path, "old")
    monkeypatch.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        write_file(path, "new")
    assert path.read_text() == "old" and [one.name for one in tmp_path.iterdir()] == ["exam.jsonl"]


def test_a_long_name_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / f"{'x' * 250}.md"
    write_file(path, "text")
    assert path.read_text() == "text"


def test_readers_and_sixteen_writers_never_see_a_part(tmp_path: Path) -> None:
    path = tmp_path / "value"
    whole = {str(number) * 100_000 for number in range(8)}
    write_file(path, "0" * 100_000)

    def write(number: int) -> None:
        for _ in range(10):
            write_file(path, str(number % 8) * 100_000, durable=False)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    seen = {path.read_text() for _ in range(100)}
    for thread in threads:
        thread.join()
    assert seen <= whole and path.read_text() in whole and [one.name for one in tmp_path.iterdir()] == ["value"]


def test_a_report_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    write_sealed(path, {"format": 1, "rows": [1]})
    monkeypatch.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        write_sealed(path, {"format": 1, "rows": [1, 2]})
    assert read_sealed(path, 1)["rows"] == [1]
    with pytest.raises(ValueError, match="another version"):
        read_sealed(path, 2)
    path.write_text("[" * 100_000)
    with pytest.raises(ValueError):
        read_sealed(path)


def test_a_folder_takes_the_place_of_another_one(tmp_path: Path) -> None:
    for name in ("made", "place", ".place.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)
    replace_folder(tmp_path / "made", tmp_path / "place")
    assert (tmp_path / "place" / "a").read_text() == "made" and [one.name for one in tmp_path.iterdir()] == ["place"]


def test_nothing_else_writes_checksums_into_files() -> None:
    """Besides: the first line of an exam, the mark of a session, the head of an archive, and a file of settings."""
    root = Path(surefind.__file__).parent
    found = {str(path.relative_to(root)) for path in root.rglob("*.py") if " sealed(" in path.read_text("utf-8")}
    others = {"lab/bench/reranking.py", "lab/exam/store.py", "kb/adoption.py", "engine/store/session.py"}
    assert found - others == {"base/disk/sealed.py"}


def test_nothing_else_replaces_files() -> None:
    """A folder is renamed and a damaged cache is moved away; a checkpoint of torch is written by torch."""
    root = Path(surefind.__file__).parent
    pattern = re.compile(r"os\.replace\(|mkstemp\(|\b(?:aside|fresh|temporary)\.replace\(")
    found = {str(path.relative_to(root)) for path in root.rglob("*.py") if pattern.search(path.read_text("utf-8"))}
    assert found == {"base/disk/sealed.py", "lab/train/learning.py"}
