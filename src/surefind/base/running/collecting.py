"""Lets Python look for unreachable objects less often, while a writer makes many objects that stay.

Python looks after every 700 new objects. With a row for each of 100,000 files in memory, this takes half a second.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

_OBJECTS = 100_000
"""How many objects may be new before Python looks."""
_lock = threading.Lock()
_inside = 0
_usual = gc.get_threshold()


@contextlib.contextmanager
def collecting_seldom() -> Iterator[None]:
    """Raises the threshold of new objects within the block. Threads may be inside at the same time."""
    global _inside, _usual
    with _lock:
        if not _inside:
            _usual = gc.get_threshold()
            gc.set_threshold(max(_OBJECTS, _usual[0]) if _usual[0] else 0, *_usual[1:])
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                gc.set_threshold(*_usual)
