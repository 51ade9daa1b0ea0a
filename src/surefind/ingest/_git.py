"""A git repository at a revision, by the git program: fetched beside the catalogue, its files laid out as a folder.

    git+https://host/team/handbook.git@v2.1      git+ssh://git@host/team/handbook.git      git+file:///srv/handbook@main

Nothing of a repository is run: no hooks, no submodules, no filters, no working tree. Only https, ssh and file are
spoken, no password is asked for, and every call has a deadline.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from surefind.errors import MissingPartError, SourceError

PREFIX = "git+"
_SCHEMES = ("https", "ssh", "file")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./+-]*")
_ADDRESS = re.compile(r"(?P<scheme>https?|ssh)://(?P<rest>.+)|(?P<host>[\w.-]+@[\w.-]+):(?P<path>[^/].*)")
_SECONDS = 600
_HEAD = "refs/surefind/head"
_SAFE = [
    word
    for setting in (
        "core.hooksPath=/dev/null", "core.fsmonitor=false", "submodule.recurse=false", "fetch.recurseSubmodules=false",
        "gc.auto=0", "maintenance.auto=false", "init.templateDir=",
    )
    for word in ("-c", setting)
]  # fmt: skip


@dataclass(frozen=True)
class GitOrigin:
    url: str
    revision: str = ""

    @classmethod
    def parse(cls, text: str) -> GitOrigin:
        parts = urlsplit(text.removeprefix(PREFIX))
        path, _, revision = parts.path.rpartition("@") if "@" in parts.path else (parts.path, "", "")
        if parts.scheme not in _SCHEMES or path in ("", "/") or (parts.scheme != "file" and not parts.hostname):
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


def fetch(origin: GitOrigin, folder: Path, have: str, wanted: Callable[[str, int], bool]) -> str:
    """Bring `folder/tree` to the origin's revision and return its commit. `have` is the commit it holds now; `wanted`
    decides by path and size which files are laid out."""
    if shutil.which("git") is None:
        raise MissingPartError("git is not installed, and a repository cannot be read without it.")
    store = folder / "repository.git"
    if not store.exists():
        store.mkdir(parents=True)
        _git(store, "init", "--quiet", "--bare", ".")
    commit = _fetched(origin, store)
    tree = folder / "tree"
    if commit != have or not tree.exists():
        fresh = folder / "tree.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        _lay_out(store, commit, fresh, wanted)
        shutil.rmtree(tree, ignore_errors=True)
        fresh.rename(tree)
    return commit


def _fetched(origin: GitOrigin, store: Path) -> str:
    """One commit if the server gives it by name, else its history to find the revision in."""
    quiet = ("fetch", "--quiet", "--no-tags", "--force", "--no-recurse-submodules")
    try:
        _git(store, *quiet, "--depth=1", "--", origin.url, f"+{origin.revision or 'HEAD'}:{_HEAD}")
        return _git(store, "rev-parse", "--verify", "--quiet", f"{_HEAD}^{{commit}}")
    except SourceError:
        if not origin.revision:
            raise
    _git(store, *quiet, "--", origin.url, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
    try:
        return _git(store, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{origin.revision}^{{commit}}")
    except SourceError:
        raise SourceError(f"There is no revision {origin.revision!r} in {origin.url}.") from None


def _lay_out(store: Path, commit: str, fresh: Path, wanted: Callable[[str, int], bool]) -> None:
    """Regular files only: links and submodules stay names in the archive. Commits of the same second have times of
    their own, so that a file of the same size is not taken for unchanged."""
    with _started(store, "archive", "--format=tar", commit) as process:
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
                for member in archive:
                    steps = member.name.split("/")
                    if not member.isreg() or ".." in steps or "" in steps or not wanted(member.name, member.size):
                        continue
                    written = int(member.mtime) * 10**9 + int(commit[:7], 16)
                    content = archive.extractfile(member)
                    path = fresh.joinpath(*steps)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    with path.open("wb") as file:
                        shutil.copyfileobj(_there(content), file)
                    os.utime(path, ns=(written, written))
        except tarfile.TarError as error:
            raise SourceError(f"The repository's files cannot be laid out ({error}).") from None


def _there(content: IO[bytes] | None) -> IO[bytes]:
    if content is None:
        raise SourceError("The repository's files cannot be laid out (a file has no content).")
    return content


def _git(store: Path, *words: str) -> str:
    with _started(store, *words) as process:
        try:
            said, complaint = process.communicate(timeout=_SECONDS)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)  # with its helpers for the network
            process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise SourceError(f"git {words[0]} took more than {_SECONDS} s and was stopped.") from None
            raise
    if process.returncode:
        lines = complaint.decode(errors="replace").strip().splitlines() or [f"exit code {process.returncode}"]
        reason = next((line for line in lines if line.startswith("fatal:")), lines[-1])
        raise SourceError(f"git {words[0]} failed: {reason.removeprefix('fatal: ')}")
    return said.decode().strip()


def _started(store: Path, *words: str) -> subprocess.Popen[bytes]:
    environment = {key: value for key, value in os.environ.items() if key not in ("GIT_DIR", "GIT_WORK_TREE")}
    environment |= {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": ":".join(_SCHEMES),
        "GIT_SSH_COMMAND": os.environ.get("GIT_SSH_COMMAND", "ssh -oBatchMode=yes"),
        "LC_ALL": "C",
    }
    return subprocess.Popen(
        ["git", *_SAFE, *words],
        cwd=store,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
