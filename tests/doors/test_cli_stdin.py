"""A query that comes through a pipe."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from cases import each
from exam_helpers import Ran, surefind
from helpers import Home

COMMAND = [sys.executable, "-m", "surefind", "search"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = Home(tmp_path_factory.mktemp("stdin"))
    home.write("docs/a.md", "# Cash\n\nThe teller counts cash twice before the vault opens.")
    home.write("docs/b.md", "# Übung\n\nDie Übung dauert lange.")
    assert surefind("sync", home.docs, kb=home.folder).code == 0
    return home.folder


def piped(folder: Path, text: bytes, *words: str) -> Ran:
    """A search in this process; its standard input has this text."""
    with mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(text))):
        return surefind("search", *words, kb=folder)


@each("words", [("-",), ()])
def test_query_is_read_from_stdin(folder: Path, words: tuple[str, ...]) -> None:
    """Through a real pipe, in a process of its own."""
    command = [*COMMAND, *words, "--json"]
    done = subprocess.run(command, cwd=folder, input=b"teller cash\n", capture_output=True, check=False)
    found = json.loads(done.stdout)
    assert (done.returncode, found["query"], found["hits"][0]["document"]) == (0, "teller cash", "a.md")


def test_several_lines_are_one_query(folder: Path) -> None:
    assert piped(folder, b"\n teller\ncash \n\n", "-", "--json").json["query"] == "teller\ncash"


def test_byte_order_mark_is_no_part_of_the_query(folder: Path) -> None:
    found = piped(folder, b"\xef\xbb\xbf" + "Übung".encode(), "-", "--json").json
    assert (found["query"], found["hits"][0]["document"]) == ("Übung", "b.md")


def test_words_win_over_stdin(folder: Path) -> None:
    assert piped(folder, b"nothing", "teller", "--json").json["query"] == "teller"


@each(
    ("text", "says"),
    [
        (b"", "The query on stdin is empty"),
        (b" \n\t\n", "The query on stdin is empty"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"x" * 100_000, "The query has 100,000 characters"),
    ],
)
def test_bad_input_exits_2_with_a_sentence(folder: Path, text: bytes, says: str) -> None:
    done = piped(folder, text, "-")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("surefind: ") and says in done.err


def test_no_query_at_a_terminal_is_not_waited_for(folder: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            COMMAND, cwd=folder, stdin=theirs, capture_output=True, text=True, check=False, timeout=300
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 2 and "The query is missing" in done.stderr


def test_no_query_and_no_stdin_gets_a_sentence(folder: Path) -> None:
    script = f"exec {sys.executable} -m surefind search <&-"
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr
