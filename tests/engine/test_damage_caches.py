"""Damaged caches: what is damaged is computed again, and a damaged row never gets into an index."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from surefind.base.prompts.values import Completion
from surefind.engine.llm.chat import CompletionCache
from surefind.engine.store.vectors import VectorCache

ROWS = [(bytes([i]) * 16, bytes([i, 255 - i]) * 700) for i in range(40)]
KEYS = [key for key, _ in ROWS]


@pytest.fixture
def whole(tmp_path: Path) -> bytes:
    cache = VectorCache(tmp_path / "embeddings.db")
    cache.put(ROWS)
    cache.close()
    return (tmp_path / "embeddings.db").read_bytes()


def damaged(whole: bytes, chance: random.Random) -> bytes:
    """A flipped byte, a page of zeros, or a missing end."""
    at = chance.randrange(len(whole))
    how = chance.random()
    if how < 0.1:
        return whole[:at]
    if how < 0.2:
        return whole[: at // 4096 * 4096] + bytes(4096) + whole[at // 4096 * 4096 + 4096 :]
    return whole[:at] + bytes([whole[at] ^ (1 << chance.randrange(8))]) + whole[at + 1 :]


def test_damaged_vectors_are_missing_and_stored_again(tmp_path: Path, whole: bytes) -> None:
    chance = random.Random(5)
    path = tmp_path / "embeddings.db"
    lost = 0
    for _ in range(150):
        for left in tmp_path.iterdir():
            left.unlink()
        path.write_bytes(damaged(whole, chance))
        cache = VectorCache(path)
        found = cache.get(KEYS)
        assert found.items() <= dict(ROWS).items()
        lost += len(found) < len(ROWS)
        cache.put([row for row in ROWS if row[0] not in found])
        assert cache.get(KEYS) == dict(ROWS)
        cache.close()
    assert lost > 50, "the test damages nothing"


def test_file_that_is_no_database_is_moved_aside(tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    path.write_bytes(b"not a database" * 1000)
    cache = CompletionCache(path)
    answer = Completion("yes", 1, 2, 0.5, model="m", seconds=1.0)
    assert cache.get([b"key"]) == {}
    cache.put(b"key", answer)
    assert cache.get([b"key"])[b"key"].text == "yes"
    assert cache.seconds("m") == 1.0
    cache.close()
    assert (tmp_path / "answers.db.damaged").read_bytes().startswith(b"not a database")


def test_full_cache_is_no_damaged_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bytes) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    cache = VectorCache(tmp_path / "embeddings.db")
    monkeypatch.setattr("surefind.engine.store.cache.Cache._write_waiting", full)
    with pytest.raises(sqlite3.OperationalError, match="disk is full"):
        cache.put(ROWS[:1])
    cache.close()
    assert (tmp_path / "embeddings.db").read_bytes() == whole
