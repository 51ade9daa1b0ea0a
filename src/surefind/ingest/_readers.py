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
    """The reader of the file's whole name or of the longest suffix that it ends in, if any."""
    lowered = name.lower()
    table = _by_suffix()
    base = lowered.rpartition("/")[2]
    endings = [base, *(base[i:] for i, char in enumerate(base) if char == ".")]
    return next((table[ending] for ending in endings if ending in table), None)


def known_suffixes() -> list[str]:
    return sorted(_by_suffix())
