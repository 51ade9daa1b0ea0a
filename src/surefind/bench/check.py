"""The regression gate: is retrieval worse than in an earlier report, beyond noise?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surefind.errors import UsageError
from surefind.measure.statistics import ALPHA, holm, permutation_p


@dataclass(frozen=True)
class Regression:
    name: str
    before: float
    after: float
    p: float

    @property
    def failed(self) -> bool:
        return self.after < self.before and self.p < ALPHA


@dataclass(frozen=True)
class CheckResult:
    rows: tuple[Regression, ...]
    shared: int
    """Questions that both reports asked."""

    @property
    def failed(self) -> bool:
        return any(row.failed for row in self.rows)

    def __str__(self) -> str:
        lines = [f"Compared on {self.shared} questions that both runs asked:"]
        for row in self.rows:
            verdict = "WORSE" if row.failed else "ok"
            lines.append(f"  {verdict:<6}{row.name}: {row.before:.3f} -> {row.after:.3f} (p {row.p:.3f} after Holm)")
        return "\n".join(lines)


@dataclass(frozen=True)
class Baseline:
    path: Path
    primary: str
    scores: dict[str, dict[str, float]]
    """Configuration -> question -> score."""


def read_baseline(path: Path) -> Baseline:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return Baseline(path, data["primary"], _scores(data))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is not a report that surefind bench --save wrote ({error}).") from None


def _scores(report: dict[str, Any]) -> dict[str, dict[str, float]]:
    return {row["name"]: dict(zip(report["query_ids"], row["scores"], strict=True)) for row in report["rows"]}


def check_report(report: dict[str, Any], baseline: Baseline) -> CheckResult:
    """Paired per question, over the configurations of the same name, Holm-corrected together."""
    before, after = baseline.scores, _scores(report)
    names = [name for name in after if name in before]
    shared = sorted(set(report["query_ids"]).intersection(*(before[name] for name in names)))
    if baseline.primary != report["primary"] or not names or not shared:
        raise UsageError(
            f"{baseline.path} has no configuration, measure and questions in common with this run. "
            "Write a new baseline with: surefind bench --save FILE."
        )
    old, new = (np.array([[side[name][q] for name in names] for q in shared]) for side in (before, after))
    p = holm(permutation_p(new - old))
    rows = zip(names, old.mean(axis=0), new.mean(axis=0), p, strict=True)
    return CheckResult(tuple(Regression(name, float(b), float(a), float(q)) for name, b, a, q in rows), len(shared))
