"""Whether asking a language model is worth its price here: the best configuration that asks one against the best that
asks none, in a sentence. What is worth it is the user's to say; what is not is plain: no difference that could be told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from surefind.measure.statistics import Comparison

Timing = Mapping[str, Any]
"""A row's latency with its stages, as `measure_latency` gives it."""


def calls_of(timing: Timing) -> float:
    """Of language models, for one query."""
    return float(sum(stage.get("calls", 0.0) for stage in timing.get("stages", {}).values()))


def cost_of(timing: Timing) -> float:
    """Dollars for 1,000 queries."""
    return float(1000 * sum(stage.get("dollars", 0.0) for stage in timing.get("stages", {}).values()))


def llm_value(
    names: Sequence[str],
    measure: str,
    means: Sequence[float],
    latency: Sequence[Timing],
    comparisons: Sequence[Comparison],
) -> str:
    """Empty where there is nothing to weigh: no row asks a model, or all do."""
    asking = [i for i, timing in enumerate(latency) if calls_of(timing)]
    plain = [i for i in range(len(names)) if i not in asking]
    if not asking or not plain:
        return ""
    best, other = (max(rows, key=lambda i: (means[i], -i)) for rows in (asking, plain))
    c = next((c for c in comparisons if {c.a, c.b} == {best, other}), None)
    if c is None:
        return ""
    sign = 1 if c.a == best else -1
    gain = (
        f"{_signed(sign * c.difference)} {measure} [{', '.join(map(_signed, sorted((sign * c.low, sign * c.high))))}]"
    )
    price = f"${cost_of(latency[best]):,.2f} and {calls_of(latency[best]) * 1000:,.0f} calls for 1,000 queries"
    slower = float(latency[best].get("p50") or 0) - float(latency[other].get("p50") or 0)
    price += f", {slower:,.0f} ms more a query" if slower >= 1 else ""
    against = f"{names[best]} against {names[other]}, the best that asks no language model"
    if c.significant and sign * c.difference > 0:
        return f"The language model earns {gain} here ({against}) at {price}."
    if c.significant:
        return f"The language model is not worth its price here: it costs {gain} ({against}) on top of {price}."
    return (
        f"The language model is not worth its price here: {gain} ({against}) cannot be told from nothing, at {price}."
    )


def _signed(value: float) -> str:
    return f"{round(value, 3) + 0.0:+.3f}"  # no minus before a zero
