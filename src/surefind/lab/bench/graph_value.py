"""Says whether the graph is worth its cost on this corpus.

Compares the best configuration with the graph to the best one without it that has the same rerankers. Both are picked
after looking at the results, so significance comes from the comparison of all pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

from surefind.lab.bench.plan import Contender
from surefind.lab.measure.statistics import Comparison


def graph_value(
    contenders: Sequence[Contender],
    measure: str,
    means: Sequence[float],
    comparisons: Sequence[Comparison],
    latency: Sequence[float],
) -> str:
    """A sentence about the graph; empty if all configurations use the graph, or none does."""
    uses = [any(r.signal == "graph" for r in contender.pipeline.retrieve) for contender in contenders]
    if all(uses) or not any(uses):
        return ""
    best_with = max((i for i, used in enumerate(uses) if used), key=lambda i: means[i])
    without = [i for i, used in enumerate(uses) if not used]
    # With a reranker on one side only, the reranker would be compared and not the graph.
    alike = [i for i in without if contenders[i].pipeline.rerank == contenders[best_with].pipeline.rerank]
    best_without = max(alike or without, key=lambda i: means[i])
    scores = (
        f"{contenders[best_with].name} scores {measure} {means[best_with]:.3f}; "
        f"{contenders[best_without].name}, the best configuration without the graph, scores {means[best_without]:.3f}"
    )
    speed = _speed(latency[best_with], latency[best_without])
    significant = any(c.significant for c in comparisons if {c.a, c.b} == {best_with, best_without})
    if significant and means[best_with] > means[best_without]:
        return f"The graph improves results on this corpus: {scores}. The difference is significant{speed}."
    if significant:
        return f"The graph makes results worse on this corpus: {scores}, significantly better. Leave the graph out."
    return (
        f"The graph does not improve results on this corpus: {scores}. "
        f"The difference is not significant{speed}. Leave the graph out."
    )


def _speed(with_graph: float, without: float) -> str:
    return f" (p50 {with_graph:.1f} ms against {without:.1f} ms)"
