"""Control characters of titles, texts and file names never reach the terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest

from exam_helpers import surefind
from forking import Forked
from helpers import WORDS, Home
from surefind.doors.cli import _common
from surefind.doors.terminal import CleanStream, clean, escaped

SGR = re.compile(rb"\x1b\[[0-9;]*m")
HOSTILE = "\x1b]0;owned\x07 \x1b[2J \x9b31m \x1b[31mred \x7f \u202eevil\u202c \u2066x\u2069 \x08\x08 \r over"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def hostile(home: Home) -> Home:
    home.configure(WORDS)
    title = json.dumps(HOSTILE + " title")  # YAML reads what JSON writes
    front = f"---\ntitle: {title}\nkey: {title}\n---\n"
    for name in ("name.md", "\x1b[31mname\u202e.md"):  # no document can have the second name, and a sync lists it
        home.write(f"docs/{name}", f"{front}# Head {HOSTILE}\n\nalpha {HOSTILE}\n")
    home.write("docs/\x1b]0;broken\x07.json", "{")
    assert surefind("sync", home.docs, kb=home.folder).code == 0
    return home


def shown(words: tuple[str, ...]) -> str:
    return " ".join(words).encode("unicode_escape").decode()[:40]


def on_terminal(home: Home, *words: str) -> bytes:
    """What a command writes to a terminal, with its colours."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    process = Forked([*words, "--kb", str(home.folder)], Path(os.ttyname(theirs)), environment)
    while not (ready := select.select([ours], [], [], 0.05)[0]) and process.poll() is None:
        pass
    assert ready, "it wrote something"
    os.close(theirs)
    written = b""
    while True:
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:  # Linux says so when the other end is closed
            break
        if not piece:
            break
        written += piece
    os.close(ours)
    process.wait()
    return written


COMMANDS = [
    ("search", "alpha"),
    ("search", "alpha", "--full"),
    ("search", "alpha", "--explain"),
    ("search", "alpha", "--json"),
    ("search", HOSTILE),
    ("search", "alpha", "--where", f"key={HOSTILE}"),
    ("status",),
    ("status", "--json"),
    ("diff",),
    ("sync",),
    ("exam", "generate"),
    ("no-such-command\x1b[2J",),
]


@pytest.mark.parametrize("words", COMMANDS, ids=shown)
def test_only_our_own_control_characters_reach_a_terminal(hostile: Home, words: tuple[str, ...]) -> None:
    written = on_terminal(hostile, *words)
    assert b"Traceback" not in written
    assert b"\x1b[31m" not in written, "a colour that the document chose"
    bare = SGR.sub(b"", written).replace(b"\r\n", b"\n")
    bare = re.sub(rb"\x1b\[\??[0-9;]*[A-HJKhl]|\r", b"", bare)  # progress bars move the cursor
    assert b"\x1b]0;" not in written and b"\x1b[2J" not in written
    assert not UNSAFE.search(bare.decode()), bare


@pytest.mark.parametrize(
    "words", COMMANDS[:11], ids=lambda words: " ".join(words)[:20].encode("unicode_escape").decode()
)
def test_only_text_reaches_a_pipe(hostile: Home, words: tuple[str, ...]) -> None:
    ran = surefind(*words, kb=hostile.folder)
    assert not UNSAFE.search(ran.out) and not UNSAFE.search(ran.err)


def test_json_keeps_the_characters_as_escapes(hostile: Home) -> None:
    ran = surefind("search", "alpha", "--json", kb=hostile.folder)
    hit = json.loads(ran.out)["hits"][0]
    assert hit["title"] == HOSTILE + " title" and hit["document"] == "name.md"
    assert "\\u202e" in ran.out and "\\u009b" in ran.out and "\\u007f" in ran.out


def test_letters_of_every_script_stay() -> None:
    kept = "Zürich, 東京, हिन्दी, ไทย, עברית, 👩‍💻, é, a\tb\nc"
    assert clean(kept) == kept
    assert json.loads(escaped(json.dumps(kept, ensure_ascii=False))) == kept
    assert escaped(json.dumps("ü東", ensure_ascii=False)) == '"ü東"'


def test_streams_are_cleaned_once_and_have_no_way_around() -> None:
    raw = io.StringIO()
    stream = CleanStream(raw)
    assert stream.write("a\x1b[2Jb\n") == 7
    stream.writelines(["c\x07", "d\n"])
    assert raw.getvalue() == "a[2Jb\ncd\n"
    assert not hasattr(stream, "buffer")


def test_names_that_no_encoding_has_are_printed() -> None:
    assert clean("a\udc80b") == "a\ufffdb"


def test_tables_and_rules_are_clean(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table
    from rich.text import Text

    screen = _common.console()
    table = Table("a", title=HOSTILE)
    table.add_row(HOSTILE)
    screen.print(table)
    screen.rule(HOSTILE)
    screen.print(Text(HOSTILE, style="bold"))
    assert not UNSAFE.search(capsys.readouterr().out)


def test_unexpected_errors_are_clean(tmp_path: Path) -> None:
    code = f"""
import surefind.doors.cli as cli

def failing(**settings):
    raise RuntimeError({HOSTILE!r})

cli.app = failing
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=tmp_path)
    assert done.returncode != 0 and not UNSAFE.search(done.stderr.decode())
