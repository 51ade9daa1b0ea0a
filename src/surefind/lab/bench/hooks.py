"""Runs the stages of a configuration on a whole exam.

Retrievers have run already, once for all configurations. Rerankers run in batches, and their rankings are cached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from surefind.base.protocols import Fuser, OnProgress, Reranker, Retriever
from surefind.base.running.notes import CollectedNotes, collecting
from surefind.base.types import Query, Rankings
from surefind.engine.search.hooks import StageHooks, Work
from surefind.lab.bench.plan import Contender
from surefind.lab.bench.reranking import Reranking, Step


class ExamHooks(StageHooks):
    """Looks up retrievers, reports what a fuser collected to `fused`, and keeps the effect of each reranker."""

    def __init__(
        self,
        contender: Contender,
        queries: Sequence[Query],
        retrieved: Mapping[tuple[str, str, int], Rankings],
        reranking: Reranking,
        fused: Callable[[Contender, CollectedNotes], None],
        report: OnProgress,
    ) -> None:
        """`retrieved` has the rankings of each retriever, by the keys of `Plan.retrievers`."""
        self._contender = contender
        self._queries = queries
        self._retrieved = retrieved
        self._reranking = reranking
        self._fused = fused
        self._progress = partial(report, f"Reranking {contender.name}")
        self.steps: list[Step] = []
        """The effect of each reranker, in order."""

    def retrieve(self, retriever: Retriever, depth: int, work: Work) -> Rankings:
        return self._retrieved[str(self._contender.layout or ""), str(retriever), depth]

    def fuse(self, fuser: Fuser, work: Work) -> Rankings:
        with collecting() as collected:
            rankings = work()
        self._fused(self._contender, collected)
        return rankings

    def rerank(self, reranker: Reranker, before: Rankings, work: Work) -> Rankings:
        width = max(1, before.ids.shape[1])
        self.steps.append(self._reranking.run(reranker, self._queries, before, width, self._progress))
        return self.steps[-1].after
