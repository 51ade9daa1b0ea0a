"""The texts of chunks that may be on disk: each is read when it is used, so that they are never in memory together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from surefind.base.types import Chunk


class Texts(Sequence[str]):
    """The searchable texts of chunks."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self._chunks = chunks

    def __len__(self) -> int:
        return len(self._chunks)

    @overload
    def __getitem__(self, at: int) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...

    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        if isinstance(at, slice):
            return [chunk.searchable for chunk in self._chunks[at]]
        return self._chunks[at].searchable
