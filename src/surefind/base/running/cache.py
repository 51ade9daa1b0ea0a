"""The one cache in memory with a limit: it keeps the values that were used last. (Pure functions use `lru_cache`.)"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class BoundedCache(Generic[Key, Value]):
    """Keeps values up to a limit: their number, or the sum of what `weigh` says of each. Threads may share it."""

    def __init__(self, limit: int, weigh: Callable[[Value], int] = lambda _: 1) -> None:
        self._limit = limit
        self._weigh = weigh
        self._weight = 0
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._lock = threading.Lock()
        self._making = threading.RLock()  # to make one value may need another one

    def __iter__(self) -> Iterator[Key]:
        with self._lock:
            return iter(list(self._values))

    def get(self, key: Key) -> Value | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: Key, value: Value) -> Value:
        """Stores a value and returns it. Those that were used longest ago make room."""
        with self._lock:
            if key in self._values:
                self._weight -= self._weigh(self._values.pop(key))
            self._values[key] = value
            self._weight += self._weigh(value)
            while self._weight > self._limit:
                self._weight -= self._weigh(self._values.popitem(last=False)[1])
        return value

    def get_or_make(self, key: Key, make: Callable[[], Value]) -> Value:
        """Returns the value, made now if it is missing: once, by one thread, while others that need one made wait."""
        value = self.get(key)
        if value is None:
            with self._making:
                value = self.get(key)
                if value is None:
                    value = self.put(key, make())
        return value
