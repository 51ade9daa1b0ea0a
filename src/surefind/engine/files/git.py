"""Fetches a git repository at a revision, next to the catalogue, and extracts its files into a folder.

    git+https://host/team/handbook.git@v2.1      git+ssh://git@host/team/handbook.git      git+file:///srv/handbook@main

`_git_program` runs git, with everything disabled that could run code from a repository.

Runs the git program on a bare repository: safely, in its own process group, under limits.

No code from a repository runs: there are no hooks, submodules, filters or working tree. Only the protocols https, ssh
and file are allowed, and git never asks for a password. Time, memory and the size of files are limited, and git ends
with this process, however this process ends.

Writes a file into the working tree of a git repository and commits it, under the name of its author.

Where a document may be written: inside the tree of documents, and never where a sync, git, a shell or another tool
reads its configuration or an assistant its instructions.

Some disks take different names for the same file: they ignore case, invisible characters, or blanks and dots at the
end, and give short names such as GIT~1. A name is compared in the one form that all of them have in common.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple
from urllib.parse import urlsplit

from surefind.base.disk.sealed import FILE_NAME, read_sealed, write_file, write_sealed
from surefind.base.errors import MissingPartError, SourceError
from surefind.base.names import document_name
from surefind.engine.files.opening import FileLimits
from surefind.engine.files.scan import FileRules, is_ignored

_WINDOWS_SHORT_NAME = re.compile(r"[^.]{1,8}~\d{1,6}(?:\..{0,3})?")
"""A short name that Windows makes of a long one."""
_INSTRUCTIONS = frozenset(
    "agent agents claude clinerules codex conventions copilot copilot-instructions crush cursorrules gemini goosehints "
    "grok jules junie llms llms-full qwen skill soul warp windsurfrules".split()
)
"""The stems of files that coding agents and assistants take for instructions, such as CLAUDE.md and claude.local.md."""
_FOR_AGENTS = re.compile(r".+\.(?:agent|chatmode|instructions|prompt|skill)\.[a-z]+")
"""Names with a second ending by which assistants find their instructions: review.prompt.md."""
_LISTS = re.compile(
    r"(?:(?:[\w.-]{0,80}[-_.])?(?:requirements?|constraints|reqs)(?:[-_.][\w.-]{1,80})?|cmakelists|cmakecache|"
    r"meson_options|runtime|packages|apt|robots|humans|ads|app-ads|sellers|security|[0-9a-f]{32})\.(?:txt|text)"
    r"|google[0-9a-f]{8,40}\.html?"
)
"""Files that package managers, builds, hosting and search engines read."""
_LISTS_BELOW = re.compile(r"(?:[\w-]{0,80}[-_])?(?:requirements|constraints|reqs)")
"""Folders whose .txt files package managers read."""


def is_document_path(path: str) -> bool:
    """Returns whether a file at this path of a tree is a document: inside the tree, where a sync would read it, and not
    the settings of a knowledge base."""
    plain = PurePosixPath(path)
    parts = [_folded(part) for part in plain.parts]
    if not parts or plain.is_absolute() or "\\" in path:
        return False
    if any(part in ("", FILE_NAME) or _WINDOWS_SHORT_NAME.fullmatch(part) for part in parts):
        return False
    return not is_ignored("/".join(parts), FileRules())


def check_writable(document: str, name: str, formats: Sequence[str]) -> None:
    """Raises `SourceError` unless the text of a document may be written to a file of its name: a document in one of
    these formats, which is that of the file `name` that was reviewed, and not one that programs read."""
    document_name(document)
    suffix = _suffix(document)
    if not is_document_path(document) or _is_read_by_programs(document):
        why = "programs or assistants read a file of this name"
    elif suffix not in formats:
        why = f"only {' '.join(formats)} are written (formats below [drafts] in surefind.toml)"
    elif _suffix(name) != suffix:
        why = f"its text was reviewed as {name}, which is another format"
    else:
        return
    raise SourceError(f"{document!r} is not written to a git repository: {why}. Publish it under another name.")


def _suffix(path: str) -> str:
    return PurePosixPath(path).suffix.lower()


def _is_read_by_programs(path: str) -> bool:
    *folders, name = (_folded(part) for part in PurePosixPath(path).parts)
    if name.split(".")[0] in _INSTRUCTIONS or _FOR_AGENTS.fullmatch(name) or _LISTS.fullmatch(name):
        return True
    return name.endswith((".txt", ".text")) and any(map(_LISTS_BELOW.fullmatch, folders))


def _folded(part: str) -> str:
    """Returns a name as the most lenient disk compares it. What follows a colon names a part of a file on Windows."""
    plain = unicodedata.normalize("NFKC", part).casefold()
    shown = "".join(letter for letter in plain if unicodedata.category(letter) not in ("Cf", "Cc"))
    return shown.partition(":")[0].strip().rstrip(". ")


SCHEMES = ("https", "ssh", "file")

"""Bytes read from a pipe at a time."""
_MAX_OUTPUT_BYTES = 1 << 20
"""Bytes of git's messages that are read."""
_SAFE = [
    word
    for setting in (
        "core.hooksPath=/dev/null", "core.fsmonitor=false", "submodule.recurse=false", "fetch.recurseSubmodules=false",
        "gc.auto=0", "maintenance.auto=false", "init.templateDir=",
        "core.bigFileThreshold=10m",  # larger files are streamed, not loaded
    )
    for word in ("-c", setting)
]  # fmt: skip
_START = """
ulimit -d "$1" 2>/dev/null; ulimit -f "$2" 2>/dev/null; shift 2
exec 3<&0
{ read -r _ <&3 || kill -KILL 0; } >/dev/null 2>&1 &
exec git "$@" </dev/null 3<&-
"""
"""Starts git with limits on its memory (kB) and on the files that it writes (blocks of 512 bytes). Beside it waits a
process that reads our end of a pipe: if the pipe ends without a line, we have died, and the whole group is killed."""


def git(store: Path, *words: str, limits: FileLimits) -> str:
    """Runs a git command and returns its output."""
    with running(store, *words, limits=limits) as output:
        return output.read().decode().strip()


@contextlib.contextmanager
def running(store: Path, *words: str, limits: FileLimits, strict: bool = False) -> Iterator[IO[bytes]]:
    """Runs a git command and yields its output as a stream. The end of the block waits for the command and raises
    `SourceError` if it failed. If the block raises, or time is up, the command and its network helpers are killed.

    With `strict`, an error on stderr is a failure, whatever the exit code. Network commands cannot be strict: a helper
    that may not ask for a password prints `fatal: …`, and the fetch continues without a password.
    """
    with tempfile.TemporaryFile() as stderr:  # not a pipe: git would block once an unread pipe is full
        process = _started(store, words, stderr, limits)
        timed_out = threading.Event()

        def stop() -> None:
            timed_out.set()
            _kill(process)

        timer = threading.Timer(limits.repository_seconds, stop)
        timer.daemon = True
        timer.start()
        watched, output = process.stdin, process.stdout
        assert watched is not None and output is not None
        try:
            yield output
            while output.read(_PIECE):  # git would block on output that the caller left unread
                pass
            process.wait()
        finally:
            timer.cancel()
            _kill(process)
            with contextlib.suppress(BrokenPipeError):
                watched.write(b"\n")  # git has ended: the process beside it may go
                watched.close()
            output.close()
            process.wait()
        if timed_out.is_set():
            seconds = limits.repository_seconds
            raise SourceError(f"git {words[0]} took more than {seconds:g} s (max_repository_seconds) and was stopped.")
        stderr.seek(0)
        lines = stderr.read(_MAX_OUTPUT_BYTES).decode(errors="replace").splitlines()
        reasons = [line for kind in ("fatal: ", "error: ") for line in lines if line.startswith(kind)]
        if process.returncode or (strict and reasons):
            reason = next(iter([*reasons, *filter(None, reversed(lines))]), f"exit code {process.returncode}")
            reason = _limit_reached(" ".join(lines), process.returncode, limits) or reason
            raise SourceError(f"git {words[0]} failed: {reason.removeprefix('fatal: ').removeprefix('error: ')}")


def _limit_reached(said: str, code: int, limits: FileLimits) -> str:
    """Names the limit that stopped git or one of its helpers; empty if none did."""
    if code == -signal.SIGXFSZ or f"signal {int(signal.SIGXFSZ)}" in said or "File too large" in said:
        return f"it writes more than {limits.repository_mb:g} MB (max_repository_mb)"
    if "ut of memory" in said or "malloc failed" in said or "Cannot allocate memory" in said:
        return f"it needs more than {limits.memory_mb:g} MB of memory (max_memory_mb)"
    return ""


def _started(store: Path, words: tuple[str, ...], stderr: IO[bytes], limits: FileLimits) -> subprocess.Popen[bytes]:
    environment = {key: value for key, value in os.environ.items() if key not in ("GIT_DIR", "GIT_WORK_TREE")}
    environment |= {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": ":".join(SCHEMES),
        "GIT_SSH_COMMAND": os.environ.get("GIT_SSH_COMMAND", "ssh -oBatchMode=yes"),
        "LC_ALL": "C",
    }
    most = (str(int(limits.memory_mb * 1000)), str(int(limits.repository_mb * 1e6 / 512)))
    return subprocess.Popen(
        ["/bin/sh", "-c", _START, "sh", *most, *_SAFE, *words],
        cwd=store,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        start_new_session=True,  # its own group: Ctrl-C goes to us only, and one signal kills git and its helpers
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:  # after wait(), another process may have its id
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


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


_COMMITTER = ("-c", "user.name=Surefind", "-c", "user.email=surefind@localhost", "-c", "commit.gpgSign=false")


@dataclass(frozen=True)
class WorkingTree:
    """The working tree of a repository, and what may be written to it."""

    repository: Path
    below: Sequence[Path]
    """The folders that documents may be written to."""
    formats: Sequence[str]
    """The endings of the files that may be written."""
    limits: FileLimits

    def file(self, document: str, name: str) -> Path:
        """Returns the file of a document whose text was reviewed as the file `name`. Raises `SourceError` if no
        document is written there, or if its path leads through a symbolic link."""
        check_writable(document, name, self.formats)
        if not (self.repository / ".git").exists():
            raise SourceError(f"{self.repository} is not the top folder of a git repository. Make one with: git init.")
        parts = PurePosixPath(document).parts
        steps = [self.repository.joinpath(*parts[: end + 1]) for end in range(len(parts))]
        if any(step.is_symlink() for step in steps):
            raise SourceError(f"{document!r} is, or is behind, a symbolic link. Publish it under another name.")
        file = steps[-1]
        if not any(file.is_relative_to(folder) for folder in self.below):
            raise SourceError(
                f"{file} is not synced, so it is no document. Set [drafts] git to the folder that is synced, if it is "
                "the top folder of a git repository."
            )
        return file

    def commit(self, document: str, name: str, data: bytes, author: str, message: str) -> str:
        """Writes the file of a document, commits it and returns the commit. Other changes in the working tree stay as
        they are. If the repository has this content already, nothing is committed. Raises `SourceError`."""
        file = self.file(document, name)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_file(file, data)
        except OSError as error:
            raise SourceError(f"{document} cannot be written to {self.repository} ({error.strerror}).") from None
        self._git("add", "--", f":(literal){document}")
        if self._git("status", "--porcelain", "--", f":(literal){document}"):
            letters = (letter if letter.isprintable() and letter not in "<>" else " " for letter in author)
            author = " ".join("".join(letters).split()) or "unknown"
            words = ("commit", "--quiet", "--no-verify", f"--author={author} <>", "-m", message)
            self._git(*_COMMITTER, *words, "--", f":(literal){document}")
        return self._git("rev-parse", "HEAD")

    def _git(self, *words: str) -> str:
        return git(self.repository, *words, limits=self.limits)
