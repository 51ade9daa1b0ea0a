"""A cache of vectors, keyed by model and text, so that re-indexing computes only the vectors of changed texts."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from surefind.abilities import embed_queries, query_fingerprint
from surefind.folders import private_folder
from surefind.protocols import Embedder, Progress
from surefind.types import FloatArray

_BATCH = 512
"""The number of texts embedded between two commits, which is the most that an interruption can lose."""


class VectorCache:
    """Stores vectors in a SQLite file. Threads share one connection behind a lock: without the lock, statements of two
    threads would end up in one transaction."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Returns the stored vectors of these keys, as bytes; keys without a vector are left out."""
        found: dict[bytes, bytes] = {}
        for at in range(0, len(keys), _BATCH):
            part = keys[at : at + _BATCH]
            marks = ",".join("?" * len(part))
            with self._lock:
                found.update(self._open().execute(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", part))
        return found

    def put(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        """Stores (key, vector bytes) pairs."""
        with self._lock, self._open() as connection:
            connection.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)

    def close(self) -> None:
        with self._lock:
            if self._connection:
                self._connection.close()
                self._connection = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            private_folder(self._path.parent)
            self._connection = sqlite3.connect(self._path, timeout=30, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID"
            )
        return self._connection


class CachedEmbedder:
    """An encoder with an optional `VectorCache`: equal texts are embedded once, and new vectors are saved at once.

    A single text is most likely the query of a search. It bypasses the cache, so that a reader never writes. The last
    queries' vectors stay in memory, because scoring candidates and predicting weights need them after the search.
    """

    def __init__(self, embedder: Embedder, cache: VectorCache | None = None) -> None:
        self._embedder = embedder
        self._cache = cache
        self._last: tuple[tuple[str, ...], FloatArray] | None = None

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
        known = self._last
        if known is None or known[0] != wanted:
            known = self._last = (wanted, self._through(self.query_fingerprint, self._encode_queries, wanted, None))
        return known[1]

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
            return encode(texts, progress)
        keys = [_key(fingerprint, text) for text in texts]
        known = self._cache.get(list(dict.fromkeys(keys)))
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        # Sorted by length, longest first: batches of similar length waste little padding.
        todo = sorted(missing.items(), key=lambda item: len(item[1]), reverse=True)
        for at in range(0, len(todo), _BATCH):
            part = todo[at : at + _BATCH]
            vectors = encode([text for _, text in part], _from(len(texts) - len(todo) + at, len(texts), progress))
            rows = [(key, vector.tobytes()) for (key, _), vector in zip(part, vectors, strict=True)]
            self._cache.put(rows)
            known.update(rows)
            if progress:  # an encoder need not report progress within a batch
                progress(len(texts) - len(todo) + at + len(part), len(texts))
        # The dimension follows from the data: asking the encoder for it may need a request to a server.
        return np.frombuffer(b"".join(known[key] for key in keys), dtype=np.float32).reshape(len(texts), -1)


def _from(start: int, total: int, progress: Progress | None) -> Progress | None:
    """Turns progress within one batch into progress of the whole job."""
    return (lambda done, _: progress(start + done, total)) if progress else None


def _key(fingerprint: str, text: str) -> bytes:
    return hashlib.blake2b(f"{fingerprint}\0{text}".encode(), digest_size=16).digest()
