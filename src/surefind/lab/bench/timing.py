"""How long a search takes with a configuration, and what its language models cost: part of every report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class StageTiming:
    """The milliseconds of one stage."""

    p50: float
    p95: float
    mean: float
    calls: float | None = None
    """Calls to language models per query; None if the stage makes none."""
    dollars: float | None = None
    """The price of these calls per query."""


@dataclass(frozen=True)
class Timing:
    """The milliseconds of a search."""

    p50: float
    p95: float
    mean: float
    p50_low: float
    """The median lies between `p50_low` and `p50_high`, whatever else the machine does."""
    p50_high: float
    stages: Mapping[str, StageTiming]

    @property
    def calls(self) -> float:
        """Calls to language models per query."""
        return float(sum(stage.calls or 0.0 for stage in self.stages.values()))

    @property
    def cost_per_1k(self) -> float:
        """Dollars per 1,000 queries."""
        return float(1000 * sum(stage.dollars or 0.0 for stage in self.stages.values()))
