"""Limits on what a file or a repository may cost. A file that exceeds a limit is skipped, and the reason is listed."""

from __future__ import annotations

from dataclasses import dataclass

OUT_OF_MEMORY = 3
"""The exit code of a child process that has no memory left even to say so."""


@dataclass(frozen=True)
class FileLimits:
    """The limits of a file, and of a repository. Each is set in `[sync]` of surefind.toml, with `max_` in front."""

    file_mb: float = 50
    """Size of a file. Larger files are not opened."""
    seconds: float = 60
    """Time to read and cut one file, in a child process."""
    memory_mb: float = 2000
    """Memory for the data of the child process."""
    unpacked_mb: float = 200
    """Unpacked size of an archive or office file, and size of the text of a file, at all levels of nesting together."""
    members: int = 10_000
    """Files in an archive, at all levels of nesting together."""
    nesting: int = 3
    """Levels of archives inside archives."""
    ratio: float = 200
    """Unpacked size divided by packed size of one member. Documents stay far below this, zip bombs are far above."""
    repository_mb: float = 5000
    """Size of the files of a repository at one revision, all together, and of what git writes to fetch them."""
    repository_files: int = 500_000
    """Files of a repository at one revision."""
    repository_seconds: float = 600
    """Time of one git command."""
