"""Writes a file into the working tree of a git repository and commits it, under the name of its author."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from surefind.errors import SourceError
from surefind.files._git_program import git
from surefind.files.limits import Limits

_COMMITTER = ("-c", "user.name=Surefind", "-c", "user.email=surefind@localhost", "-c", "commit.gpgSign=false")


def commit_file(repository: Path, path: str, data: bytes, author: str, message: str, limits: Limits) -> str:
    """Commits a file at a path of a repository, and returns the commit. Other changes in the working tree stay as they
    are. If the repository has this content already, nothing is committed. Raises `SourceError`."""
    if not (repository / ".git").exists():
        raise SourceError(f"{repository} is not the top folder of a git repository. Make one with: git init.")
    file = _inside(repository, path)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    except OSError as error:
        raise SourceError(f"{path} cannot be written to {repository} ({error.strerror}).") from None
    git(repository, "add", "--", f":(literal){path}", limits=limits)
    if git(repository, "status", "--porcelain", "--", f":(literal){path}", limits=limits):
        name = " ".join("".join(one if one.isprintable() and one not in "<>" else " " for one in author).split())
        words = ("commit", "--quiet", "--no-verify", f"--author={name or 'unknown'} <>", "-m", message)
        git(repository, *_COMMITTER, *words, "--", f":(literal){path}", limits=limits)
    return git(repository, "rev-parse", "HEAD", limits=limits)


def _inside(repository: Path, path: str) -> Path:
    """Returns the file at a path of a repository. Raises `SourceError` for a path that leads out of it, into git's own
    folder, or through a symbolic link."""
    parts = PurePosixPath(path).parts
    reserved = any(part.rstrip(". ").lower() in (".git", "git~1", "..", "") or ":" in part for part in parts)
    steps = [repository.joinpath(*parts[: end + 1]) for end in range(len(parts))]
    if not parts or reserved or PurePosixPath(path).is_absolute() or any(step.is_symlink() for step in steps):
        raise SourceError(f"{path!r} cannot be a path in a git repository.")
    return repository.joinpath(*parts)
