"""Writes a file into the working tree of a git repository and commits it, under the name of its author."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from surefind.base.disk.replacing import write_file
from surefind.base.errors import SourceError
from surefind.engine.files._git_program import git
from surefind.engine.files.limits import FileLimits
from surefind.engine.files.writable import check_writable

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
                f"{file} is not synced, so it is no document. Set [desk] git to the folder that is synced, if it is "
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
