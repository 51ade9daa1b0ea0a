"""Hostile repositories: bounded in time, memory, size and number of files; git ends when we do."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cases import mostly_long
from helpers import Home
from surefind import Access
from surefind.base.errors import SourceError
from surefind.engine.files.git import GitOrigin, fetch, running
from surefind.engine.files.opening import FileLimits

WHO = {f"GIT_{role}_{part}": "a@b.c" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}


def git(folder: Path, *words: str, given: bytes = b"") -> str:
    done = subprocess.run(
        ["git", *words], cwd=folder, env={**os.environ, **WHO}, check=True, capture_output=True, input=given
    )
    return done.stdout.decode().strip()


def repository(folder: Path, *levels: list[tuple[str, bytes | None]]) -> Path:
    """A bare repository whose trees nest: each level holds (name, content), or the level before where the content is
    None. Ten names on each of seven levels are ten million files, in a repository of some kilobytes."""
    folder.mkdir()
    git(folder, "init", "-q", "--bare", "-b", "main")
    tree = ""
    for level in levels:
        rows = [
            f"100644 blob {git(folder, 'hash-object', '-w', '--stdin', given=content)}\t{name}"
            if content is not None
            else f"040000 tree {tree}\t{name}"
            for name, content in level
        ]
        tree = git(folder, "mktree", given="\n".join(rows).encode())
    git(folder, "update-ref", "refs/heads/main", git(folder, "commit-tree", tree, "-m", "bomb"))
    return folder


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def everything(path: str, size: int) -> bool:
    return True


def test_repository_of_ten_million_files_is_refused(home: Home, tmp_path: Path) -> None:
    names = [f"{i}" for i in range(10)]
    bomb = repository(
        tmp_path / "bomb", [(f"{name}.md", b"alpha") for name in names], *([[(n, None) for n in names]] * 6)
    )
    assert size_of(bomb) < 50_000
    started = time.monotonic()
    limits = FileLimits(repository_files=2_000)
    with pytest.raises(SourceError, match=r"holds more than 2,000 files \(max_repository_files\)"):
        fetch(GitOrigin(f"file://{bomb}", "main"), home.folder, "", everything, limits=limits)
    assert time.monotonic() - started < 60
    assert not (home.folder / "tree").exists() and not (home.folder / "tree.new").exists()


def test_repository_that_unpacks_to_gigabytes_is_refused(home: Home, tmp_path: Path) -> None:
    blob = bytes(20_000_000)
    bomb = repository(tmp_path / "bomb", [(f"{i}.md", blob) for i in range(8)])
    assert size_of(bomb) < 200_000
    origin = GitOrigin(f"file://{bomb}", "main")
    with pytest.raises(SourceError, match=r"unpacks to more than 50 MB \(max_repository_mb\)"):
        fetch(origin, home.folder, "", everything, limits=FileLimits(repository_mb=50))
    assert not (home.folder / "tree.new").exists()


def test_git_may_use_only_so_much_memory(tmp_path: Path) -> None:
    """A file below git's own threshold is loaded as a whole."""
    bomb = repository(tmp_path / "bomb", [("a.md", bytes(200_000_000))])
    limits = FileLimits(memory_mb=100)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    with running(bomb, "archive", "main", limits=limits) as output:  # above the threshold that we set, so streamed
        while output.read(1 << 20):
            pass
    assert max(before, 150_000) >= resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    loaded = ("-c", "core.bigFileThreshold=1g", "archive", "main")
    too_much = pytest.raises(SourceError, match=r"needs more than 100 MB of memory \(max_memory_mb\)")
    with too_much, running(bomb, *loaded, limits=limits) as output:
        while output.read(1 << 20):
            pass


def test_fetched_pack_may_have_only_so_many_bytes(home: Home, tmp_path: Path) -> None:
    large = repository(tmp_path / "large", [("a.bin", os.urandom(3_000_000))])
    with pytest.raises(SourceError, match=r"more than 1 MB \(max_repository_mb\)"):
        fetch(GitOrigin(f"file://{large}", "main"), home.folder, "", everything, limits=FileLimits(repository_mb=1))


def test_files_that_this_system_cannot_store_are_listed_and_the_rest_is_read(home: Home, tmp_path: Path) -> None:
    odd = repository(tmp_path / "odd", [("x" * 300 + ".md", b"alpha"), ("good.md", b"alpha")])
    with home.open() as kb:
        result = kb.sync(f"git+file://{odd}@main")
        assert [d.id for d in kb.documents(Access.owner())] == ["good.md"]
        assert [(p.path[:3], p.reason) for p in result.skipped] == [("xxx", "cannot be extracted: File name too long")]


HANGS = '"$GIT" "$@"; sleep 600 & echo $! > "$NOTES"; wait'


def slow_git(tmp_path: Path, command: str) -> dict[str, str]:
    """An environment in which `git COMMAND` hangs, with a helper, after it has done its work."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "git"
    script.write_text(
        f"#!/bin/sh\nGIT={shutil.which('git')}\nNOTES={tmp_path}/notes\n"
        f'case " $* " in *" {command} "*) ;; *) exec "$GIT" "$@" ;; esac\n{HANGS}\n'
    )
    script.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


KILLS = [("archive", signal.SIGKILL), ("fetch", signal.SIGTERM), ("archive", signal.SIGINT)]
KILLS += [("fetch", signal.SIGKILL), ("archive", signal.SIGTERM), ("fetch", signal.SIGINT)]


@pytest.mark.parametrize(("command", "number"), mostly_long(KILLS, 2))
def test_git_ends_when_we_are_killed(home: Home, tmp_path: Path, command: str, number: signal.Signals) -> None:
    source = repository(tmp_path / "book", [("a.md", b"alpha")])
    environment = slow_git(tmp_path, command)
    words = [sys.executable, "-m", "surefind", "sync", f"git+file://{source}@main", "--kb", str(home.folder)]
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    notes = tmp_path / "notes"
    try:
        deadline = time.monotonic() + 60
        while not (notes.exists() and notes.read_text().strip()) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(number)
        process.wait(timeout=30)
    finally:
        process.kill()
    helper = Path(f"/proc/{int(notes.read_text())}/stat")
    deadline = time.monotonic() + 10
    while _runs(helper) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(helper)


def _runs(process: Path) -> bool:
    try:
        return process.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
