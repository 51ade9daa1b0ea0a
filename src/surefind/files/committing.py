"""Writes a file into the working tree of a git repository and commits it, under the name of its author."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from surefind.disk.replacing import write_file
from surefind.errors import SourceError
from surefind.files._git_program import git
from surefind.files.limits import FileLimits
from surefind.files.writable import is_configuration, is_document_path

_COMMITTER = ("-c", "user.name=Surefind", "-c", "user.email=surefind@localhost", "-c", "commit.gpgSign=false")


def commit_file(
    repository: Path, path: str, data: bytes, author: str, message: str, limits: FileLimits, below: Sequence[Path]
) -> str:
    """Commits a document at a path of a repository, below one of the folders `below`, and returns the commit. Other
    changes in the working tree stay as they are. If the repository has this content already, nothing is committed.
    Raises `SourceError`."""
    if not (repository / ".git").exists():
        raise SourceError(f"{repository} is not the top folder of a git repository. Make one with: git init.")
    file = _inside(repository, path, below)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, data)
    except OSError as error:
        raise SourceError(f"{path} cannot be written to {repository} ({error.strerror}).") from None
    git(repository, "add", "--", f":(literal){path}", limits=limits)
    if git(repository, "status", "--porcelain", "--", f":(literal){path}", limits=limits):
        name = " ".join(
            "".join(
                character if character.isprintable() and character not in "<>" else " " for character in author
            ).split()
        )
        words = ("commit", "--quiet", "--no-verify", f"--author={name or 'unknown'} <>", "-m", message)
        git(repository, *_COMMITTER, *words, "--", f":(literal){path}", limits=limits)
    return git(repository, "rev-parse", "HEAD", limits=limits)


def _inside(repository: Path, path: str, below: Sequence[Path]) -> Path:
    """Returns the file at a path of a repository. Raises `SourceError` for a path that is no document's, or leads
    through a symbolic link."""
    parts = PurePosixPath(path).parts
    steps = [repository.joinpath(*parts[: end + 1]) for end in range(len(parts))]
    if not is_document_path(path) or is_configuration(path) or any(step.is_symlink() for step in steps):
        raise SourceError(
            f"{path!r} cannot be the path of a document in a git repository: it is a link, hidden, or configuration of "
            "a tool. Publish it under another name."
        )
    file = repository.joinpath(*parts)
    if not any(file.is_relative_to(folder) for folder in below):
        raise SourceError(
            f"{file} is not synced, so it is no document. Set [desk] git to the folder that is synced, if it is the "
            "top folder of a git repository."
        )
    return file
