"""Fetches a git repository at a revision, next to the catalogue, and extracts its files into a folder.

    git+https://host/team/handbook.git@v2.1      git+ssh://git@host/team/handbook.git      git+file:///srv/handbook@main

`_git_program` runs git, with everything disabled that could run code from a repository.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple
from urllib.parse import urlsplit

from surefind.base.disk.sealed import read_sealed, write_sealed
from surefind.base.errors import MissingPartError, SourceError
from surefind.engine.files._git_program import SCHEMES, git, running
from surefind.engine.files.limits import FileLimits

PREFIX = "git+"
"""Marks the URL of a repository, as opposed to a path."""
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./+-]*")
_ADDRESS = re.compile(r"(?P<scheme>https?|ssh)://(?P<rest>.+)|(?P<host>[\w.-]+@[\w.-]+):(?P<path>[^/].*)")
_PIECE = 1 << 16
"""Bytes read from a stream at a time."""
_HEAD = "refs/surefind/head"
"""The ref that a fetched commit is stored under."""
_RECORD = "left_out.json"
"""The file that records which files were not extracted, and by which rules."""


_UNSTORABLE = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EINVAL, errno.EILSEQ)
"""The errors of a name that a file system cannot store, or that is both a file and a folder."""


@dataclass(frozen=True)
class GitOrigin:
    """A repository and a revision of it."""

    url: str
    revision: str = ""
    """A branch, tag or commit; empty for the default branch."""
    user: str = field(default="", repr=False, compare=False)
    """The user name of an https URL. It may be a token, so it is neither shown nor stored."""

    @classmethod
    def parse(cls, text: str) -> GitOrigin:
        """Reads an origin from its text form, `git+URL@REVISION`."""
        try:
            text.encode()
            parts = urlsplit(text.removeprefix(PREFIX))
        except ValueError:  # half of a character, or a host in brackets that is not an IPv6 address
            raise _no_repository(text) from None
        path, _, revision = parts.path.rpartition("@") if "@" in parts.path else (parts.path, "", "")
        path = f"/{path.lstrip('/')}"  # file:////a would be read back as file:///a
        named = bool(revision) or not parts.path.endswith("@")
        if not named or parts.scheme not in SCHEMES or path == "/" or (parts.scheme != "file" and not parts.hostname):
            raise _no_repository(text)
        if parts.query or parts.fragment:
            raise SourceError(f"{text!r} contains ? or #, which the URL of a repository must not. Remove that part.")
        if parts.password:
            raise SourceError(
                f"The URL of {parts.hostname} contains a password. Remove it; git's credential helper can supply it."
            )
        if parts.scheme != "https" or not parts.username:
            return cls.at(parts._replace(path=path).geturl(), revision)
        host = parts.netloc.rpartition("@")[2]
        return replace(cls.at(parts._replace(path=path, netloc=host).geturl(), revision), user=parts.username)

    @classmethod
    def at(cls, url: str, revision: str) -> GitOrigin:
        """Makes an origin after checking that the revision is a valid name."""
        if revision and (not _REVISION.fullmatch(revision) or ".." in revision):
            raise SourceError(f"{revision!r} is not the name of a branch, tag or commit.")
        return cls(url, revision)

    def __str__(self) -> str:
        return f"{PREFIX}{self.url}" + (f"@{self.revision}" if self.revision else "")

    @property
    def address(self) -> str:
        """The URL that git fetches from, with the user name."""
        return self.url.replace("://", f"://{self.user}@", 1) if self.user else self.url

    @property
    def name(self) -> str:
        return self.url.rstrip("/").rpartition("/")[2].removesuffix(".git")

    @property
    def key(self) -> str:
        """A hash of the URL without the revision, because a knowledge base holds one revision of a repository."""
        return hashlib.blake2b(self.url.encode(), digest_size=8).hexdigest()


def _no_repository(text: str) -> SourceError:
    return SourceError(
        f"{text!r} is not a repository URL that Surefind can read. Write git+https://HOST/PATH@REVISION; git+ssh:// "
        "and git+file:// work too."
    )


def source(path: str | Path, revision: str = "") -> Path | GitOrigin:
    """Reads a source as people write it: a path, `git+URL@REVISION`, or a path with a revision."""
    if str(path).startswith(PREFIX):
        origin = GitOrigin.parse(str(path))
        return GitOrigin.at(origin.url, revision) if revision else origin
    if (address := spelled(str(path))) and not _exists(Path(path)):
        raise SourceError(f"{str(path)!r} is a URL, not a path. To sync a Git repository, write {address}.")
    return GitOrigin.at(f"file://{Path(path).expanduser().resolve()}", revision) if revision else Path(path)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # longer than a file name can be
        return False


def spelled(address: str) -> str:
    """Converts a repository's usual URL to ours: git@host:a.git -> git+ssh://git@host/a.git. Returns an empty string if
    `address` may be a path."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        return ""
    scheme = "ssh" if match["host"] or match["scheme"] == "ssh" else "https"
    return f"{PREFIX}{scheme}://{match['rest'] or '/'.join((match['host'], match['path']))}"


class SkippedFile(NamedTuple):
    """A file or link of a repository that was not extracted."""

    name: str
    target: str
    """The target of a link; empty for a file."""
    reason: str = ""
    """Why a file could not be extracted; empty if it was not wanted."""


def left_out(folder: Path) -> list[SkippedFile]:
    """Returns the files and links that the last `fetch` into the folder did not extract."""
    return _recorded(folder)[1]


def fetch(
    origin: GitOrigin,
    folder: Path,
    have: str,
    wanted: Callable[[str, int], bool],
    rules: str = "",
    limits: FileLimits | None = None,
) -> str:
    """Brings `folder/tree` to the origin's revision and returns the commit. `have` is the commit that the tree holds
    now. `wanted` decides by path and size which files are extracted; `rules` describes its decisions, and files are
    extracted again when this text changes."""
    if shutil.which("git") is None:
        raise MissingPartError("Reading a repository needs the git program. Install git and sync again.")
    limits = limits or FileLimits()
    store = folder / "repository.git"
    if not store.exists():
        store.mkdir(parents=True)
        git(store, "init", "--quiet", "--bare", ".", limits=limits)
    commit = _fetched(origin, store, limits)
    tree = folder / "tree"
    if commit != have or not tree.exists() or _recorded(folder)[0] != rules:
        fresh = folder / "tree.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        try:
            left = _extract(store, commit, fresh, wanted, limits)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        shutil.rmtree(tree, ignore_errors=True)
        fresh.rename(tree)
        # Last: without it, files are extracted again.
        write_sealed(folder / _RECORD, {"rules": rules, "left_out": left})
    return commit


def _recorded(folder: Path) -> tuple[str | None, list[SkippedFile]]:
    """The rules by which the tree was extracted (None if unknown), and the files they left out."""
    try:
        record = read_sealed(folder / _RECORD)
        return record["rules"], [SkippedFile(*row) for row in record["left_out"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None, []


def _fetched(origin: GitOrigin, store: Path, limits: FileLimits) -> str:
    """Fetches the revision and returns its commit. If the server does not serve the revision by name, fetches all
    branches and tags with their history, and looks there."""
    run = partial(git, store, limits=limits)
    quiet = ("fetch", "--quiet", "--no-tags", "--force", "--no-recurse-submodules")
    try:
        run(*quiet, "--depth=1", "--", origin.address, f"+{origin.revision or 'HEAD'}:{_HEAD}")
        return run("rev-parse", "--verify", "--quiet", f"{_HEAD}^{{commit}}")
    except SourceError:
        if not origin.revision:
            raise
    run(*quiet, "--", origin.address, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
    try:
        return run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{origin.revision}^{{commit}}")
    except SourceError:
        raise SourceError(f"There is no revision {origin.revision!r} in {origin.url}.") from None


def _extract(
    store: Path, commit: str, fresh: Path, wanted: Callable[[str, int], bool], limits: FileLimits
) -> list[SkippedFile]:
    """Extracts the wanted regular files, never links or submodules, and returns the files and links left out. Part of
    the commit's hash is added to the modification times: two commits of the same second then differ in time, so that a
    changed file of the same size is not mistaken for an unchanged one."""
    _count(store, commit, limits)
    broken = ""
    left: list[SkippedFile] = []
    with running(store, "archive", "--format=tar", commit, limits=limits, strict=True) as output:
        stream = _Ending(output)
        try:
            with tarfile.open(fileobj=stream, mode="r|") as archive:  # type: ignore[call-overload]
                for member in _limited(archive, limits):
                    steps = member.name.split("/")
                    if member.isreg() and ".." not in steps and "" not in steps and wanted(member.name, member.size):
                        written = int(member.mtime) * 10**9 + int(commit[:7], 16)
                        if reason := _write(archive.extractfile(member), fresh.joinpath(*steps), written):
                            left.append(SkippedFile(member.name, "", reason))
                    elif member.isreg() or member.issym():
                        left.append(SkippedFile(member.name, member.linkname))
        except tarfile.TarError as error:
            broken = f"The repository's files cannot be extracted ({error})."
        stream.finish()
    if broken:  # only here, because git's own error, raised at the end of the block above, says more
        raise SourceError(broken)
    if not stream.is_whole:
        raise SourceError("The repository's files cannot be extracted: git archive stopped before its end.")
    return left


def _count(store: Path, commit: str, limits: FileLimits) -> None:
    """Raises `SourceError` if a commit has too many files. Some kilobytes of folders within folders may name one file
    ten million times, and `git archive` lists them all in memory before it writes the first."""
    files = 0
    with running(store, "ls-tree", "-r", "-z", "--name-only", "--full-tree", commit, limits=limits) as output:
        while piece := output.read(_PIECE):
            files += piece.count(b"\0")
            if files > limits.repository_files:
                most = f"{limits.repository_files:,} files (max_repository_files)"
                raise SourceError(f"The repository holds more than {most}.")


def _limited(archive: tarfile.TarFile, limits: FileLimits) -> Iterator[tarfile.TarInfo]:
    """Yields the members of an archive. Raises `SourceError` if they are too large together."""
    size = 0
    for member in archive:
        size += member.size
        if size > limits.repository_mb * 1e6:
            raise SourceError(f"The repository unpacks to more than {limits.repository_mb:g} MB (max_repository_mb).")
        archive.members = []  # type: ignore[attr-defined]  # tarfile keeps every member that it has read
        yield member


def _write(content: IO[bytes] | None, path: Path, written: int) -> str:
    """Writes a file. Returns the reason if this system cannot store a file of this name, else an empty string."""
    if content is None:
        raise SourceError("The repository's files cannot be extracted (a file has no content).")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            shutil.copyfileobj(content, file)
        os.utime(path, ns=(written, written))
    except OSError as error:
        if error.errno not in _UNSTORABLE:
            raise
        return f"cannot be extracted: {error.strerror}"
    return ""


class _Ending:
    """A stream that remembers its last bytes. `tarfile` accepts an archive that was cut off between two files; a
    complete one ends with two empty blocks."""

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
