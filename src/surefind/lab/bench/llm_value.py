"""Says what a language model gains on this exam, and what it costs.

Compares the best configuration that calls a language model to the best one that calls none. Whether a significant gain
is worth its price is for the user to decide. Without a significant gain, the model is not worth its price.
"""

from __future__ import annotations

from collections.abc import Sequence

from surefind.lab.bench.timing import Timing
from surefind.lab.measure.statistics import Comparison


def llm_value(
    names: Sequence[str],
    measure: str,
    means: Sequence[float],
    latency: Sequence[Timing],
    comparisons: Sequence[Comparison],
) -> str:
    """Sentences about the language model's gain and price; empty if no configuration calls a model, or all do."""
    with_llm = [i for i, timing in enumerate(latency) if timing.calls]
    without = [i for i in range(len(names)) if i not in with_llm]
    if not with_llm or not without:
        return ""
    best, other = (max(rows, key=lambda i: (means[i], -i)) for rows in (with_llm, without))
    c = next((c for c in comparisons if {c.a, c.b} == {best, other}), None)
    if c is None:
        return ""
    sign = 1 if c.a == best else -1
    low, high = sorted((sign * c.low, sign * c.high))
    price = f"${latency[best].cost_per_1k:,.2f} and {latency[best].calls * 1000:,.0f} calls per 1,000 queries"
    slower = latency[best].p50 - latency[other].p50
    price += f" and adds {slower:,.0f} ms per query" if slower >= 1 else ""
    change = (
        f"changes {measure} by {_signed(sign * c.difference)} [{_signed(low)}, {_signed(high)}] "
        f"({names[best]} against {names[other]}, the best configuration without one)"
    )
    if c.significant and sign * c.difference > 0:
        return f"The language model {change}, a significant gain. It costs {price}."
    why = "a significant loss" if c.significant else "which is not significant"
    return f"The language model is not worth its price here: it {change}, {why}. It costs {price}."


def _signed(value: float) -> str:
    return f"{round(value, 3) + 0.0:+.3f}"  # no minus before a zero
