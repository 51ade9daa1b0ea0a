"""Caches answers by model, prompt and parameters: a repeated benchmark is free and identical.

A row holds the answer and its cost. Prompts are stored only as hashes, API keys not at all.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from surefind.base.errors import StoreError
from surefind.base.prompts.values import Completion
from surefind.engine.store.cache import Cache

_COLUMNS = (
    "text TEXT", "tokens_in INT", "tokens_out INT", "dollars REAL", "cut INT", "model TEXT",
    "seconds REAL",
)  # fmt: skip


class CompletionCache:
    """Writes each answer to disk before anyone gets it, so a killed job keeps every answer it received."""

    def __init__(self, path: Path) -> None:
        self._cache = Cache(path, "completions", _COLUMNS)

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Completion]:
        """Returns the answers that are in the cache."""
        with self._explained():
            return {key: _completion(*values) for key, values in self._cache.get(keys).items()}

    def put(self, key: bytes, completion: Completion) -> None:
        c = completion
        cost = float(c.dollars), int(c.cut), c.model, float(c.seconds)
        with self._explained():
            self._cache.put([(key, c.text, c.tokens_in, c.tokens_out, *cost)])

    def seconds(self, model: str) -> float | None:
        """Average seconds per answer of this model; None if there are no answers. For estimates."""
        with self._explained():
            rows = self._cache.ask("SELECT avg(seconds) FROM completions WHERE model = ?", (model,))
        return float(rows[0][0]) if rows and rows[0][0] is not None else None

    def check(self) -> tuple[int, int]:
        """Returns how many answers are intact, and how many are damaged."""
        return self._cache.check()

    def close(self) -> None:
        self._cache.close()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Re-raises disk and SQLite errors with advice: an answer that cannot be stored must stop a paid job."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"The cache of answers {self._cache.path} cannot be used ({error}). Free some space, or move the file "
                "away."
            ) from error


def _completion(
    text: str, tokens_in: int, tokens_out: int, dollars: float, cut: int, model: str, seconds: float
) -> Completion:
    return Completion(text, tokens_in, tokens_out, dollars, True, bool(cut), model, seconds)
