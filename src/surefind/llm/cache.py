"""Caches answers by model, prompt and parameters: a repeated benchmark is free and identical.

A row holds the answer and its cost. Prompts are stored only as hashes, API keys not at all.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from surefind.errors import StoreError
from surefind.folders import private_folder
from surefind.prompts.values import Completion

_TABLE = """
CREATE TABLE IF NOT EXISTS completions (
    key BLOB PRIMARY KEY, text TEXT, tokens_in INT, tokens_out INT, dollars REAL, logprobs TEXT, cut INT, model TEXT,
    seconds REAL
) WITHOUT ROWID
"""
_BATCH = 500


class CompletionCache:
    """Writes each answer to disk before anyone gets it, so a killed job keeps every answer it received.

    The thread that holds the lock writes the answers of all waiting threads in one transaction, so that threads do not
    queue for the disk.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._waiting: deque[tuple[object, ...]] = deque()
        self._connection: sqlite3.Connection | None = None

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Completion]:
        """Returns the answers that are in the cache."""
        rows = []
        for at in range(0, len(keys), _BATCH):
            part = keys[at : at + _BATCH]
            wanted = f"SELECT * FROM completions WHERE key IN ({','.join('?' * len(part))})"
            with self._lock, self._explained():
                rows += self._open().execute(wanted, part).fetchall()
        return {row[0]: _completion(*row[1:]) for row in rows}

    def put(self, key: bytes, completion: Completion) -> None:
        c = completion
        tops = json.dumps(c.logprobs)
        row = (key, c.text, c.tokens_in, c.tokens_out, c.dollars, tops, int(c.cut), c.model, c.seconds)
        self._waiting.append(row)
        with self._lock, self._explained(), self._open() as connection:
            rows = list(self._waiting)
            connection.executemany("INSERT OR REPLACE INTO completions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
            for _ in rows:
                self._waiting.popleft()

    def seconds(self, model: str) -> float | None:
        """Average seconds per answer of this model; None if there are no answers."""
        with self._lock, self._explained():
            if self._connection is None and not self._path.exists():
                return None
            row = self._open().execute("SELECT avg(seconds) FROM completions WHERE model = ?", (model,)).fetchone()
        return None if row[0] is None else float(row[0])

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
            self._connection.execute(_TABLE)
        return self._connection

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Re-raises disk and SQLite errors with advice: an answer that cannot be stored must stop a paid job."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"The cache of answers {self._path} cannot be used ({error}). Free some space, or move the file away."
            ) from error


def _completion(
    text: str, tokens_in: int, tokens_out: int, dollars: float, tops: str, cut: int, model: str, seconds: float
) -> Completion:
    return Completion(text, tokens_in, tokens_out, dollars, True, tuple(json.loads(tops)), bool(cut), model, seconds)
