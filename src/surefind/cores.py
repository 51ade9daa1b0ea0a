"""How many cores this process may use, which may be fewer than the machine has.

`os.cpu_count()` counts the machine's. A process may be bound to some of them (`taskset`), and a container may have a
quota of their time: threads beyond that only wait for each other.

    cores = min(affinity, ⌈quota / period⌉), at least 1
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

_GROUPS = Path("/sys/fs/cgroup")
_MINE = Path("/proc/self/cgroup")


@cache
def usable_cores() -> int:
    """Looked up once, when it is first asked for."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    allowed = quota()
    return max(1, bound if allowed is None else min(bound, allowed))


def quota(groups: Path = _GROUPS, mine: Path = _MINE) -> int | None:
    """The cores that the control groups of this process allow, rounded up; None where they allow all.

    `groups` is where they are mounted; `mine` says in which of them this process is.
    """
    limits = [limit for folder in _folders(groups, mine) if (limit := _limit(folder)) is not None]
    return min(limits, default=None)


def _folders(groups: Path, mine: Path) -> Iterator[Path]:
    """The group of this process and those around it, each of which may have a limit of its own.

    A container may be told the path that its group has on the host, where only what is below it is mounted: the paths
    that are not there have no limit, and the root is then its own group.
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
