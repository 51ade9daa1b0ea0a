"""The configurations that `surefind tune` tries if none are named: layouts × retrievers × fusions × rerankers.

Retrievers with other parameters and fusions cost almost nothing once the documents are indexed. A layout must be cut
and embedded, and a reranker reads passages for every question, so there are fewer of these. Around the best of them,
`near` tries smaller steps.

What a configuration may cost: time of a query, money, and disk space of its indexes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from surefind.base import spec
from surefind.engine.fuse.convex import Convex
from surefind.engine.rerank.cross_encoder import CrossEncoder
from surefind.engine.retrieve.bm25 import BM25
from surefind.engine.retrieve.dense import Dense
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.write.layout import Layout
from surefind.kb.settings.config import Settings
from surefind.lab.bench.latency import Timing
from surefind.lab.bench.plan import Contender, distinct, short

_WORDS = ("bm25", "bm25(k1=0.9, b=0.4)", "bm25(k1=1.2)", "bm25(b=0.5)", "bm25(analyzer=plain)")
_FUSERS = ("rrf(k=10)", "rrf(k=60)", *(f"convex(alpha={alpha}, missing=score)" for alpha in (0.3, 0.4, 0.5, 0.6, 0.7)))
_RERANKERS = ("cross_encoder",)
_LAYOUTS = (
    "hierarchical(parent=1500, child=250, overlap=0) + headings",
    "hierarchical(parent=700, child=250, overlap=0) + headings",
    "markdown(tokens=250, min_tokens=50) + headings",
    "fixed(tokens=700, overlap=140) + headings",
)


def current(settings: Settings) -> Contender:
    """The configuration that searches use now."""
    return Contender("current", settings.pipelines[settings.pipeline])


def pipelines(settings: Settings) -> list[Pipeline]:
    """The pipelines of surefind.toml, and the grid over its encoder."""
    now = list(settings.pipelines.values())
    dense = next((str(r) for pipeline in now for r in pipeline.retrieve if isinstance(r, Dense)), "dense")
    fused = [Pipeline.of([word, dense], fuser) for word in _WORDS for fuser in _FUSERS]
    plain = [Pipeline.of([retriever]) for retriever in (*_WORDS, dense)] + fused
    usual = [
        pipeline
        for pipeline in plain
        if not any(isinstance(r, BM25) and str(r) != str(BM25()) for r in pipeline.retrieve)
    ]
    reranked = [replace(pipeline, rerank=(_reranker(text),)) for pipeline in usual for text in _RERANKERS]
    return [*now, *plain, *reranked]


def candidates(settings: Settings, named: Sequence[Contender] = (), layouts: Sequence[Layout] = ()) -> list[Contender]:
    """The configurations of a race, the current one first; with `named` pipelines, these instead of the grid. Without
    `layouts`, the layout of the settings alone."""
    tried = list(named) or [Contender(pipeline.name or short(pipeline), pipeline) for pipeline in pipelines(settings)]
    own = [current(settings), *(replace(each, layout=None) for each in tried)]
    other = [
        Contender(f"{layout} | {each.name}", each.pipeline, layout)
        for layout in layouts
        if str(layout) != str(settings.layout)
        for each in tried
    ]
    return distinct([*own, *other])


def usual_layouts() -> list[Layout]:
    return [Layout.read(text) for text in _LAYOUTS]


def near(contender: Contender) -> list[Contender]:
    """Small steps from a configuration: weights, BM25's parameters, depth, and how far a reranker is trusted."""
    pipeline = contender.pipeline
    found: list[Pipeline] = []
    if isinstance(pipeline.fuse, Convex):
        alphas = (round(pipeline.fuse.alpha + step, 3) for step in (-0.05, 0.05))
        found += [replace(pipeline, fuse=pipeline.fuse.replace(alpha=alpha)) for alpha in alphas if 0 < alpha < 1]
    for i, retriever in enumerate(pipeline.retrieve):
        if isinstance(retriever, BM25):
            steps = [{"k1": round(retriever.k1 * factor, 2)} for factor in (0.75, 1.33)]
            steps += [{"b": round(min(1.0, max(0.0, retriever.b + step)), 2)} for step in (-0.15, 0.15)]
            kept = pipeline.retrieve
            found += [
                replace(pipeline, retrieve=(*kept[:i], retriever.replace(**step), *kept[i + 1 :])) for step in steps
            ]
    found += [replace(pipeline, depth=depth) for depth in (50, 200)]
    for i, reranker in enumerate(pipeline.rerank):
        if isinstance(reranker, CrossEncoder):
            blends = [round(reranker.blend + step, 2) for step in (-0.2, 0.2)]
            found += [
                replace(pipeline, rerank=(*pipeline.rerank[:i], reranker.replace(blend=b), *pipeline.rerank[i + 1 :]))
                for b in blends
                if 0 < b <= 1
            ]
    named = [Contender(short(one), replace(one, name=""), contender.layout) for one in found]
    if contender.layout is not None:
        named = [
            replace(contender_near, name=f"{contender.layout} | {contender_near.name}") for contender_near in named
        ]
    return [contender_near for contender_near in distinct(named) if str(contender_near) != str(contender)]


def _reranker(text: str) -> CrossEncoder:
    made = spec.make("rerank", text)
    assert isinstance(made, CrossEncoder)
    return made


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
