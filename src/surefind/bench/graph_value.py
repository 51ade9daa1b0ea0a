"""Whether the graph pays for itself on this corpus, in a sentence: the best configuration with it against the best
without that reranks in the same way. Both are picked after looking, so the test is the one over all pairs."""

from __future__ import annotations

from collections.abc import Sequence

from surefind.bench.plan import Contender
from surefind.measure.statistics import Comparison


def graph_value(
    contenders: Sequence[Contender],
    measure: str,
    means: Sequence[float],
    comparisons: Sequence[Comparison],
    latency: Sequence[float | None],
) -> str:
    """Empty where there is nothing to compare."""
    uses = [any(r.signal == "graph" for r in contender.pipeline.retrieve) for contender in contenders]
    if all(uses) or not any(uses):
        return ""
    ours = max((i for i, used in enumerate(uses) if used), key=lambda i: means[i])
    without = [i for i, used in enumerate(uses) if not used]
    # A reranker on one side only would be what is compared.
    alike = [i for i in without if contenders[i].pipeline.rerank == contenders[ours].pipeline.rerank]
    theirs = max(alike or without, key=lambda i: means[i])
    scores = (
        f"{contenders[ours].name} has {measure} {means[ours]:.3f}, "
        f"the best without it, {contenders[theirs].name}, {means[theirs]:.3f}"
    )
    price = _price(latency[ours], latency[theirs])
    sure = any(c.significant for c in comparisons if {c.a, c.b} == {ours, theirs})
    if sure and means[ours] > means[theirs]:
        return f"The graph pays on this corpus: {scores}, a significant difference{price}."
    if sure:
        return f"The graph does not pay on this corpus: {scores}, which is significantly better. Leave it out."
    return f"The graph does not pay on this corpus: {scores}, a difference within chance{price}. Leave it out."


def _price(ours: float | None, theirs: float | None) -> str:
    if ours is None or theirs is None:
        return ""
    return f", at {ours:.1f} ms against {theirs:.1f} ms (p50)"
