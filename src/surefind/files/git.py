"""A git repository at a revision, by the git program: fetched beside the catalogue, its files laid out as a folder.

    git+https://host/team/handbook.git@v2.1      git+ssh://git@host/team/handbook.git      git+file:///srv/handbook@main

How git is run, and what of it is not, stands in `_git_program`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple
from urllib.parse import urlsplit

from surefind.errors import MissingPartError, SourceError
from surefind.files._git_program import SCHEMES, git, running

PREFIX = "git+"
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./+-]*")
_ADDRESS = re.compile(r"(?P<scheme>https?|ssh)://(?P<rest>.+)|(?P<host>[\w.-]+@[\w.-]+):(?P<path>[^/].*)")
_PIECE = 1 << 16
_HEAD = "refs/surefind/head"
_RECORD = "left_out.json"


@dataclass(frozen=True)
class GitOrigin:
    url: str
    revision: str = ""

    @classmethod
    def parse(cls, text: str) -> GitOrigin:
        parts = urlsplit(text.removeprefix(PREFIX))
        path, _, revision = parts.path.rpartition("@") if "@" in parts.path else (parts.path, "", "")
        if parts.scheme not in SCHEMES or path in ("", "/") or (parts.scheme != "file" and not parts.hostname):
            raise SourceError(
                f"Cannot read the repository {text!r}. Write git+https://HOST/PATH@REVISION; "
                f"git+ssh://… and git+file://… are the others that work."
            )
        if parts.password:
            raise SourceError(f"The address of {parts.hostname} holds a password. Leave it to git's credential helper.")
        return cls.at(parts._replace(path=path).geturl(), revision)

    @classmethod
    def at(cls, url: str, revision: str) -> GitOrigin:
        if revision and (not _REVISION.fullmatch(revision) or ".." in revision):
            raise SourceError(f"{revision!r} is not the name of a branch, tag or commit.")
        return cls(url, revision)

    def __str__(self) -> str:
        return f"{PREFIX}{self.url}" + (f"@{self.revision}" if self.revision else "")

    @property
    def name(self) -> str:
        return self.url.rstrip("/").rpartition("/")[2].removesuffix(".git")

    @property
    def key(self) -> str:
        """The same for every revision: a knowledge base holds one of them."""
        return hashlib.blake2b(self.url.encode(), digest_size=8).hexdigest()


def spelled(address: str) -> str:
    """How a repository is written here: git@host:a.git -> git+ssh://git@host/a.git; empty for what may be a path."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        return ""
    scheme = "ssh" if found["host"] or found["scheme"] == "ssh" else "https"
    return f"{PREFIX}{scheme}://{found['rest'] or '/'.join((found['host'], found['path']))}"


class LeftOut(NamedTuple):
    """A file or link of a repository that was not laid out."""

    name: str
    target: str
    """Where a link leads; empty for a file."""


def left_out(folder: Path) -> list[LeftOut]:
    """What the last `fetch` into the folder did not lay out."""
    return _recorded(folder)[1]


def fetch(origin: GitOrigin, folder: Path, have: str, wanted: Callable[[str, int], bool], rules: str = "") -> str:
    """Bring `folder/tree` to the origin's revision and return its commit. `have` is the commit it holds now; `wanted`
    decides by path and size which files are laid out, and `rules` is another text when it would decide otherwise."""
    if shutil.which("git") is None:
        raise MissingPartError("git is not installed, and a repository cannot be read without it.")
    store = folder / "repository.git"
    if not store.exists():
        store.mkdir(parents=True)
        git(store, "init", "--quiet", "--bare", ".")
    commit = _fetched(origin, store)
    tree = folder / "tree"
    if commit != have or not tree.exists() or _recorded(folder)[0] != rules:
        fresh = folder / "tree.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        try:
            left = _lay_out(store, commit, fresh, wanted)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        shutil.rmtree(tree, ignore_errors=True)
        fresh.rename(tree)
        (folder / _RECORD).write_text(json.dumps([rules, left]))  # last: without it, files are laid out again
    return commit


def _recorded(folder: Path) -> tuple[str | None, list[LeftOut]]:
    """The rules that the tree was laid out by, and what they left out."""
    try:
        rules, left = json.loads((folder / _RECORD).read_text())
        return rules, [LeftOut(*row) for row in left]
    except (OSError, ValueError, TypeError):
        return None, []


def _fetched(origin: GitOrigin, store: Path) -> str:
    """One commit if the server gives it by name, else its history to find the revision in."""
    quiet = ("fetch", "--quiet", "--no-tags", "--force", "--no-recurse-submodules")
    try:
        git(store, *quiet, "--depth=1", "--", origin.url, f"+{origin.revision or 'HEAD'}:{_HEAD}")
        return git(store, "rev-parse", "--verify", "--quiet", f"{_HEAD}^{{commit}}")
    except SourceError:
        if not origin.revision:
            raise
    git(store, *quiet, "--", origin.url, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
    try:
        return git(store, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{origin.revision}^{{commit}}")
    except SourceError:
        raise SourceError(f"There is no revision {origin.revision!r} in {origin.url}.") from None


def _lay_out(store: Path, commit: str, fresh: Path, wanted: Callable[[str, int], bool]) -> list[LeftOut]:
    """Regular files only: links and submodules stay names in the archive. Commits of the same second have times of
    their own, so that a file of the same size is not taken for unchanged. Returns what was left out."""
    broken = ""
    left: list[LeftOut] = []
    with running(store, "archive", "--format=tar", commit, strict=True) as output:
        stream = _Ending(output)
        try:
            with tarfile.open(fileobj=stream, mode="r|") as archive:  # type: ignore[call-overload]
                for member in archive:
                    steps = member.name.split("/")
                    if member.isreg() and ".." not in steps and "" not in steps and wanted(member.name, member.size):
                        written = int(member.mtime) * 10**9 + int(commit[:7], 16)
                        _write(archive.extractfile(member), fresh.joinpath(*steps), written)
                    elif member.isreg() or member.issym():
                        left.append(LeftOut(member.name, member.linkname))
        except tarfile.TarError as error:
            broken = f"The repository's files cannot be laid out ({error})."
        stream.finish()
    if broken:  # told only where git itself gave no reason
        raise SourceError(broken)
    if not stream.is_whole:
        raise SourceError("The repository's files cannot be laid out: git archive stopped before its end.")
    return left


def _write(content: IO[bytes] | None, path: Path, written: int) -> None:
    if content is None:
        raise SourceError("The repository's files cannot be laid out (a file has no content).")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        shutil.copyfileobj(content, file)
    os.utime(path, ns=(written, written))


class _Ending:
    """A stream that knows how it ended. `tarfile` takes one that is cut between two files for a whole one, but a whole
    one ends with two empty blocks."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._last = b""

    def read(self, size: int) -> bytes:
        piece = self._stream.read(size)
        self._last = (self._last + piece)[-2 * tarfile.BLOCKSIZE :]
        return piece

    def finish(self) -> None:
        while self.read(_PIECE):
            pass

    @property
    def is_whole(self) -> bool:
        return self._last == bytes(2 * tarfile.BLOCKSIZE)
