"""Files that are no ordinary files, and files that never end, cost no time and no memory."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from helpers import WORDS, Home
from surefind.base.errors import SourceError
from surefind.engine.files import opening
from surefind.engine.files.opening import read_bytes
from surefind.engine.ingest._decode import read_text


def test_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """Somebody may put a pipe in the place of a file after the file was checked."""
    os.mkfifo(tmp_path / "a.md")
    with pytest.raises(SourceError, match="is a named pipe, not a file"):
        read_text(tmp_path / "a.md")


def test_file_that_grows_while_it_is_read_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"x" * 1000)
    real_read, taken = os.read, 0

    def endless(number: int, size: int) -> bytes:
        nonlocal taken
        taken += min(size, 1 << 20)
        return b"x" * min(size, 1 << 20)

    monkeypatch.setattr(opening.os, "read", endless)
    try:
        with pytest.raises(SourceError, match=r"is larger than 5 MB \(max_file_mb\)"):
            read_bytes(path, str(path), 5)
    finally:
        monkeypatch.setattr(opening.os, "read", real_read)
    assert taken < 8_000_000


def test_file_without_a_size_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files below /proc say that they are empty."""
    calls = 0
    real_read = os.read

    def counted(number: int, size: int) -> bytes:
        nonlocal calls
        calls += 1
        return real_read(number, size)

    monkeypatch.setattr(opening.os, "read", counted)
    path = Path("/proc/cpuinfo")
    if not path.exists():
        pytest.skip("no /proc")
    assert read_bytes(path, str(path), 50) and calls < 20


@pytest.mark.parametrize("follow", ["inside", "anywhere"])
def test_link_to_a_file_that_never_ends_is_listed_at_once(home: Home, follow: str) -> None:
    """Reading /proc/kmsg waits for the next message of the kernel."""
    if not Path("/proc/kmsg").exists():
        pytest.skip("no /proc/kmsg")
    home.configure(WORDS + f'[sync]\nfollow_links = "{follow}"\n')
    home.write("docs/good.md", "alpha")
    (home.docs / "kernel.log").symlink_to("/proc/kmsg")
    started = time.monotonic()
    result = home.sync("docs")
    assert time.monotonic() - started < 20
    assert [found.path for found in (*result.problems, *result.skipped)] == ["kernel.log"]
    assert home.found("alpha") == ["good.md"]
