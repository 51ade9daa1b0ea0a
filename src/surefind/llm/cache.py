"""Answers that were paid for, keyed by model, prompt and parameters: a benchmark repeated is free and identical.

A row holds the answer and what it cost. Prompts are in it only as hashes, keys of servers not at all.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from surefind.errors import StoreError
from surefind.llm.values import Completion

_TABLE = """
CREATE TABLE IF NOT EXISTS completions (
    key BLOB PRIMARY KEY, model TEXT, text TEXT, tokens_in INT, tokens_out INT, dollars REAL, logprobs TEXT, cut INT,
    seconds REAL
) WITHOUT ROWID
"""


class CompletionCache:
    """One row is one transaction: a job that is killed keeps every answer it got."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def get(self, key: bytes) -> Completion | None:
        with self._lock, self._explained():
            row = (
                self._open()
                .execute(
                    "SELECT text, tokens_in, tokens_out, dollars, logprobs, cut, model FROM completions WHERE key = ?",
                    (key,),
                )
                .fetchone()
            )
        if row is None:
            return None
        text, tokens_in, tokens_out, dollars, logprobs, cut, model = row
        return Completion(text, tokens_in, tokens_out, dollars, True, tuple(json.loads(logprobs)), bool(cut), model)

    def put(self, key: bytes, completion: Completion, seconds: float) -> None:
        row = (
            key, completion.model, completion.text, completion.tokens_in, completion.tokens_out, completion.dollars,
            json.dumps(completion.logprobs), int(completion.cut), seconds,
        )  # fmt: skip
        with self._lock, self._explained(), self._open() as connection:
            connection.execute("INSERT OR REPLACE INTO completions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def seconds(self, model: str) -> float | None:
        """How long this model's answers took, on average."""
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
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self._path, timeout=30, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.execute(_TABLE)
        return self._connection

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """An answer that cannot be kept must stop a paid job, in words."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"The cache of answers {self._path} cannot be used ({error}). Free some space, or move the file away."
            ) from error
