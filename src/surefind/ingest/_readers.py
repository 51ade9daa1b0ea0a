"""Which reader takes a file."""

from __future__ import annotations

from functools import cache
from typing import cast

from surefind import spec
from surefind.protocols import Reader


@cache
def _by_suffix() -> dict[str, Reader]:
    readers = [cast(Reader, spec.make("read", name)) for name in spec.names("read")]
    return {suffix: reader for reader in readers for suffix in reader.suffixes}


def reader_for(name: str) -> Reader | None:
    """The reader with the longest suffix that the file's name ends in, if any."""
    lowered = name.lower()
    table = _by_suffix()
    dots = [i for i, char in enumerate(lowered) if char == "."]
    return next((table[lowered[i:]] for i in dots if lowered[i:] in table), None)


def known_suffixes() -> list[str]:
    return sorted(_by_suffix())
