"""What is kept in memory has a limit, by one class."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

import pytest

import surefind
from surefind.base.running import BoundedCache


def test_what_was_used_last_stays_within_the_limit() -> None:
    cache: BoundedCache[object, bytes] = BoundedCache(800, len)
    for n in range(20):
        cache.put(n, bytes(100))
        cache.get(0)
    assert cache.get(0) is not None and cache.get(19) is not None and cache.get(1) is None
    cache.put(19, b"x")
    assert cache.get(19) == b"x" and len(list(cache)) == 8
    cache.put("larger than the limit", bytes(900))
    assert list(cache) == []


def test_threads_make_a_value_once_and_one_value_may_need_another() -> None:
    cache: BoundedCache[str, list[str]] = BoundedCache(2)
    made: list[str] = []

    def make(key: str) -> list[str]:
        made.append(key)
        time.sleep(0.01)
        return [*cache.get_or_make("inner", lambda: make("inner")), key] if key != "inner" else [key]

    def use() -> None:
        assert cache.get_or_make("outer", lambda: make("outer")) == ["inner", "outer"]

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == ["outer", "inner"]


def test_an_error_while_making_is_not_kept() -> None:
    cache: BoundedCache[int, int] = BoundedCache(1)
    with pytest.raises(ZeroDivisionError):
        cache.get_or_make(1, lambda: 1 // 0)
    assert cache.get_or_make(1, lambda: 7) == 7


def test_nothing_else_limits_what_it_keeps() -> None:
    root = Path(surefind.__file__).parent
    pattern = re.compile(r"OrderedDict|move_to_end\(|popitem\(|\.pop\(next\(iter\(")
    found = {str(path.relative_to(root)) for path in root.rglob("*.py") if pattern.search(path.read_text("utf-8"))}
    assert found == {"base/running.py"}
