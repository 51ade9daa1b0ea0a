"""What a configuration may cost: time of a query, money, and disk space of its indexes."""

from __future__ import annotations

from dataclasses import dataclass

from surefind.lab.bench.timing import Timing


@dataclass(frozen=True)
class TuningLimits:
    """The user's limits; None means none."""

    p95_ms: float | None = None
    cost_per_1k: float | None = None
    index_mb: float | None = None

    @property
    def any(self) -> bool:
        return self.needs_timing or self.index_mb is not None

    @property
    def needs_timing(self) -> bool:
        return self.p95_ms is not None or self.cost_per_1k is not None

    def exceeded(self, timing: Timing | None, index_bytes: int) -> str:
        """Which limit a configuration is beyond, or an empty string. `timing` may be None if no limit needs it."""
        if timing and self.p95_ms is not None and timing.p95 > self.p95_ms:
            return f"p95 {timing.p95:.0f} ms is above {self.p95_ms:g} ms"
        if timing and self.cost_per_1k is not None and timing.cost_per_1k > self.cost_per_1k:
            return f"${timing.cost_per_1k:.2f} per 1,000 queries is above ${self.cost_per_1k:g}"
        if self.index_mb is not None and index_bytes > self.index_mb * 1e6:
            return f"{index_bytes / 1e6:.1f} MB of indexes are above {self.index_mb:g} MB"
        return ""
