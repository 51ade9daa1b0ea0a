"""What this process takes of the machine: its cores, which may be fewer than the machine has, for whom, and time for
garbage.

`os.cpu_count()` counts the machine's cores. A process may be bound to some of them (`taskset`), and a container may
have a quota of CPU time: threads beyond that only wait for each other.

    cores = min(affinity, ⌈quota / period⌉), at least 1

Lets Python look for unreachable objects less often, while a writer makes many objects that stay.

Python looks after every 700 new objects. With a row for each of 100,000 files in memory, this takes half a second.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from pathlib import Path, PurePosixPath

_GROUPS = Path("/sys/fs/cgroup")
_MINE = Path("/proc/self/cgroup")
_GARBAGE = 50_000
"""New objects after which Python looks for unused ones. A command on 100,000 files makes millions that stay, and its
default of 700 takes a tenth of the time."""

Hold = Callable[[], AbstractContextManager[object]]
_hold: ContextVar[Hold] = ContextVar("hold", default=nullcontext)


@cache
def usable_cores() -> int:
    """The cores that this process may use; looked up once, on the first call."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    allowed = quota()
    return max(1, bound if allowed is None else min(bound, allowed))


@contextmanager
def all_cores() -> Iterator[None]:
    """Holds, in the block, what this thread has to while it keeps all cores busy: nothing, unless `take_turns` was
    called. A block inside it holds nothing more."""
    with _hold.get()():
        before = _hold.set(nullcontext)
        try:
            yield
        finally:
            _hold.reset(before)


def take_turns(hold: Hold) -> None:
    """Lets this thread hold something whenever it keeps all cores busy: a place for which callers take turns."""
    _hold.set(hold)


def collect_less() -> None:
    """Makes Python look for unused objects less often, and not at its end, when the system frees all of them."""
    gc.set_threshold(_GARBAGE)
    atexit.register(gc.freeze)


def quota(groups: Path = _GROUPS, mine: Path = _MINE) -> int | None:
    """The cores that the control groups of this process allow, rounded up; None if there is no limit.

    `groups` is where control groups are mounted; `mine` is the file that lists those of this process.
    """
    limits = [limit for folder in _folders(groups, mine) if (limit := _limit(folder)) is not None]
    return min(limits, default=None)


def _folders(groups: Path, mine: Path) -> Iterator[Path]:
    """Yields the folders of this process's group and of its parent groups, each of which may have its own limit.

    A container may see the path that its group has on the host, although only the part below it is mounted. Paths that
    do not exist have no limit, and the root is then the container's own group.
    """
    yield groups
    for line in _text(mine).splitlines():  # 0::/PATH in version 2, NUMBER:cpu,cpuacct:/PATH in version 1
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number != "0" and "cpu" not in controllers.split(","):
            continue
        around = PurePosixPath(path.lstrip("/"))
        for root in (groups / controllers, groups / "cpu") if controllers else (groups,):
            yield from (root / place for place in (around, *around.parents))


def _limit(folder: Path) -> int | None:
    pair = _text(folder / "cpu.max").split()  # version 2
    if not pair:
        pair = [_text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")]  # version 1
    try:
        allowed, period = map(int, pair)
    except ValueError:  # "max", or no such file
        return None
    return math.ceil(allowed / period) if allowed > 0 and period > 0 else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


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
