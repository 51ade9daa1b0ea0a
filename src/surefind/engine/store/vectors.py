"""A cache of vectors, keyed by model and text, so that re-indexing computes only the vectors of changed texts.

A vector has 16 bits for each number: v is stored as s = max|v| / 32,767 and round(v / s), so no number is off by more
than a 65,000th of the largest. Vectors are rounded before anybody uses them, and not only in the cache: an index is the
same whether its vectors were computed now or found in the cache, and so is a question in a search and in an exam.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from surefind.base.abilities import embed_queries, query_fingerprint
from surefind.base.protocols import Embedder, Progress
from surefind.base.types import FloatArray
from surefind.engine.store.cache import Cache

_MAX_INT16 = 32_767
"""The largest number of 16 bits with a sign."""
_SCALE_BYTES = 4
_BATCH = 512
"""The number of texts embedded between two commits, which is the most that an interruption can lose."""


class VectorCache:
    """Stores vectors, or scores, as bytes."""

    def __init__(self, path: Path) -> None:
        self._cache = Cache(path, "arrays", ["array BLOB"])

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Returns the stored vectors of these keys, as bytes; keys without a vector are left out."""
        return {key: vector for key, (vector,) in self._cache.get(keys).items()}

    def put(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        """Stores (key, vector bytes) pairs."""
        self._cache.put(rows)

    def check(self) -> tuple[int, int]:
        """Returns how many vectors are intact, and how many are damaged."""
        return self._cache.check()

    def close(self) -> None:
        self._cache.close()


class CachedEmbedder:
    """An encoder with an optional `VectorCache`: equal texts are embedded once, and new vectors are saved at once. With
    or without a cache, vectors are rounded to 16 bits a number.

    A single text is most likely the query of a search. It bypasses the cache, so that a reader never writes. The last
    queries' vectors stay in memory, because scoring candidates and predicting weights need them after the search. Each
    thread has its own: searches side by side would take them from each other, and encode every query twice.
    """

    def __init__(self, embedder: Embedder, cache: VectorCache | None = None) -> None:
        self._embedder = embedder
        self._cache = cache
        self._last = threading.local()

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    @property
    def fingerprint(self) -> str:
        return self._embedder.fingerprint

    @property
    def query_fingerprint(self) -> str:
        return query_fingerprint(self._embedder)

    def embed(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        return self._through(self.fingerprint, self._embedder.embed, texts, progress)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        wanted = tuple(texts)
        known: tuple[tuple[str, ...], FloatArray] | None = getattr(self._last, "vectors", None)
        if known is None or known[0] != wanted:
            known = wanted, self._through(self.query_fingerprint, self._encode_queries, wanted, None)
            self._last.vectors = known
        return known[1]

    def lacking(self, texts: Sequence[str]) -> int:
        """How many of these texts have no vector in the cache."""
        keys = {_key(self.fingerprint, text) for text in texts}
        return len(keys) - (len(self._cache.get(list(keys))) if self._cache else 0)

    def _encode_queries(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        return embed_queries(self._embedder, texts)

    def _through(
        self,
        fingerprint: str,
        encode: Callable[[Sequence[str], Progress | None], FloatArray],
        texts: Sequence[str],
        progress: Progress | None,
    ) -> FloatArray:
        if self._cache is None or len(texts) < 2:
            return unpacked(packed(encode(texts, progress)))
        keys = [_key(fingerprint, text) for text in texts]
        known = self._cache.get(list(dict.fromkeys(keys)))
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        # Sorted by length, longest first: batches of similar length waste little padding.
        todo = sorted(missing.items(), key=lambda item: len(item[1]), reverse=True)
        for at in range(0, len(todo), _BATCH):
            part = todo[at : at + _BATCH]
            vectors = encode([text for _, text in part], _from(len(texts) - len(todo) + at, len(texts), progress))
            rows = [(key, row.tobytes()) for (key, _), row in zip(part, packed(vectors), strict=True)]
            self._cache.put(rows)
            known.update(rows)
            if progress:  # an encoder need not report progress within a batch
                progress(len(texts) - len(todo) + at + len(part), len(texts))
        # The dimension follows from the data: asking the encoder for it may need a request to a server.
        return unpacked(np.frombuffer(b"".join(known[key] for key in keys), np.uint8).reshape(len(texts), -1))


def packed(vectors: FloatArray) -> NDArray[np.uint8]:
    """Rounds vectors to 16 bits. Returns a row of bytes for each: its scale, and its numbers."""
    scales = (np.abs(vectors).max(axis=1, initial=0, keepdims=True) / np.float32(_MAX_INT16)).astype("<f4")
    with np.errstate(invalid="ignore"):  # a vector that is not finite has a scale that is not, and stays so
        numbers = np.round(vectors / np.where(scales == 0, 1, scales)).astype("<i2")
    return np.hstack([scales.view(np.uint8), numbers.view(np.uint8)])


def unpacked(rows: NDArray[np.uint8]) -> FloatArray:
    """Returns the vectors of rows that `packed` made."""
    scales, numbers = (np.ascontiguousarray(part) for part in (rows[:, :_SCALE_BYTES], rows[:, _SCALE_BYTES:]))
    vectors: FloatArray = numbers.view("<i2").astype(np.float32) * scales.view("<f4")
    return vectors


def _from(start: int, total: int, progress: Progress | None) -> Progress | None:
    """Turns progress within one batch into progress of the whole job."""
    return (lambda done, _: progress(start + done, total)) if progress else None


def _key(fingerprint: str, text: str) -> bytes:
    return hashlib.blake2b(f"{fingerprint}\0{text}".encode(), digest_size=16).digest()
