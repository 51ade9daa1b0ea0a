"""Keeps answers of searches, so that the same question is not computed twice on the same documents.

A key has everything that an answer depends on: generation, pipeline, access, query and sizes. So a caller never gets
the answer of another group, and no answer outlives its generation.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable


class AnswerCache:
    """The answers that were asked for last, up to a number of bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> bytes | None:
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def put(self, key: Hashable, answer: bytes) -> None:
        if len(answer) > self._most // 8:
            return
        with self._lock:
            self._size += len(answer) - len(self._kept.pop(key, b""))
            self._kept[key] = answer
            while self._size > self._most:
                _, gone = self._kept.popitem(last=False)
                self._size -= len(gone)
