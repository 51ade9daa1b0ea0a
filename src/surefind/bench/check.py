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


def check(report: dict[str, Any], baseline_path: Path) -> CheckResult:
    """Paired per question, over the configurations of the same name, Holm-corrected together."""
    try:
        baseline = json.loads(baseline_path.read_text(encoding="utf-8"))
        before = {row["name"]: dict(zip(baseline["query_ids"], row["scores"], strict=True)) for row in baseline["rows"]}
        same_measure = baseline["primary"] == report["primary"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{baseline_path} is not a report that surefind bench --save wrote ({error}).") from None
    after = {row["name"]: dict(zip(report["query_ids"], row["scores"], strict=True)) for row in report["rows"]}
    names = [name for name in after if name in before]
    shared = sorted(set(report["query_ids"]) & set(baseline["query_ids"]))
    if not same_measure or not names or not shared:
        raise UsageError(
            f"{baseline_path} has no configuration, measure and questions in common with this run. "
            "Write a new baseline with: surefind bench --save FILE."
        )
    old, new = (np.array([[side[name][q] for name in names] for q in shared]) for side in (before, after))
    p = holm(permutation_p(new - old))
    rows = zip(names, old.mean(axis=0), new.mean(axis=0), p, strict=True)
    return CheckResult(tuple(Regression(name, float(b), float(a), float(q)) for name, b, a, q in rows), len(shared))
