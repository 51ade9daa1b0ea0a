"""What a search says while the first sync is running."""

from __future__ import annotations

import contextlib
import fcntl
import json
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

from cases import each
from exam_helpers import surefind
from helpers import Home
from surefind.engine.store import lock
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.lock import writer_lock


@each("words", [("search", "cash"), ("status",), ("bench", "-p", "words")])
def test_a_search_says_that_the_sync_is_running_and_how_far(home: Home, words: tuple[str, ...]) -> None:
    """Asked by another process, from within the sync."""
    home.write("docs/a.md", "# Cash\n\nThe teller counts cash.")
    home.write("docs/b.md", "# Vault\n\nThe vault opens at nine.")
    asked = []

    def report(what: str, done: int, total: int) -> None:
        if not asked:
            command = [sys.executable, "-m", "surefind", *words, "--kb", str(home.folder)]
            asked.append(subprocess.run(command, capture_output=True, text=True, check=False))

    home.sync("docs", report=report)
    assert asked[0].returncode == 3 and asked[0].stdout == ""
    assert "surefind: The first sync is still running (process " in asked[0].stderr
    assert (
        "; Reading: 0 of 2). There is nothing to search before the documents are read: try again then."
        in asked[0].stderr
    )
    assert surefind("search", "cash", kb=home.folder).code == 0


def test_it_is_said_in_json_too(home: Home) -> None:
    with writer_lock(home.folder / ".surefind"):
        found = json.loads(surefind("search", "cash", "--json", kb=home.folder).out)
    assert found["error"]["type"] == "NothingIndexedError" and "still running" in found["error"]["message"]


def test_a_catalogue_without_a_generation_is_no_reason_to_say_something_else(home: Home) -> None:
    data = home.folder / ".surefind"
    data.mkdir()
    Catalogue(data).close()
    assert "The first sync was stopped" in surefind("search", "cash", kb=home.folder).err
    with writer_lock(data):
        assert "The first sync is still running" in surefind("search", "cash", kb=home.folder).err


def test_a_lock_file_that_nobody_holds_is_no_sync(home: Home) -> None:
    with writer_lock(home.folder / ".surefind"):
        pass
    ran = surefind("search", "cash", kb=home.folder)
    assert ran.code == 3 and "Make one with: surefind sync FOLDER." in ran.err


def test_a_half_written_note_is_left_out(home: Home) -> None:
    with writer_lock(home.folder / ".surefind"):
        (home.folder / ".surefind" / "writer.lock").write_text('{"pid": 1', encoding="utf-8")
        assert "The first sync is still running. There" in surefind("search", "cash", kb=home.folder).err


def test_looking_for_a_writer_does_not_turn_one_away(home: Home) -> None:
    """A reader looks by holding the lock for an instant."""
    data = home.folder / ".surefind"
    with writer_lock(data):
        pass
    with (data / "writer.lock").open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        timer = threading.Timer(0.01, lambda: fcntl.flock(looking, fcntl.LOCK_UN))
        timer.start()
        with writer_lock(data):
            pass
        timer.join()


def test_the_note_is_written_once_a_second_at_most(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[object] = []
    monkeypatch.setattr(lock, "_note", lambda file, about: written.append(about))
    with writer_lock(home.folder / ".surefind") as tell:
        started = time.monotonic()
        for number in range(1000):
            tell("Reading", number, 1000)
        seconds = time.monotonic() - started
    assert len(written) <= 2 + seconds


def test_sync_takes_over_a_catalogue_without_tables(home: Home) -> None:
    """A first sync that was killed while it made the catalogue leaves one. The command line reads the catalogue before
    the sync, to estimate what it costs."""
    home.write("docs/a.md", "# Vault\n\nThe vault opens at nine.")
    path = home.folder / ".surefind" / "catalogue.db"
    path.parent.mkdir()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode=WAL")
    assert surefind("sync", home.docs, kb=home.folder).code == 0
    assert home.found("vault") == ["a.md"]
