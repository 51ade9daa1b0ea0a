"""How much one file may cost: beyond these it is skipped, with the reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """In surefind.toml each of these is a line of `[sync]` with `max_` before its name."""

    file_mb: float = 50
    """Larger files are not opened."""
    seconds: float = 60
    """Reading one file, by a reader that runs in a process of its own."""
    memory_mb: float = 2000
    """Data of that process."""
    unpacked_mb: float = 200
    """What an archive or an office file unpacks to, and what text a file may give, all nesting together."""
    members: int = 10_000
    """Files in an archive, all nesting together."""
    nesting: int = 3
    """Archives inside archives."""
    ratio: float = 200
    """Unpacked to packed size of one member; documents stay far below, bombs far above."""
