"""The memory that this process has used at most."""

from __future__ import annotations

import resource
import sys


def peak_memory() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
