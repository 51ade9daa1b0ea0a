"""Running a plan: each retriever once over all queries, every fusion as array arithmetic, every measure at once."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.bench.cache import RunCache
from surefind.bench.latency import measure_latency
from surefind.bench.plan import Contender, Plan
from surefind.bench.reranking import Reranking, Step, stamp
from surefind.errors import ExamError
from surefind.exam.model import Exam
from surefind.exam.relocate import relocate
from surefind.kb import KnowledgeBase
from surefind.layout import Layout
from surefind.measure.gains import Judge, Places
from surefind.measure.names import Measure
from surefind.measure.ranks import MEASURES
from surefind.pipeline import Pipeline
from surefind.protocols import Retriever
from surefind.services import Services
from surefind.snapshot import Snapshot
from surefind.sync import Report, index_key
from surefind.types import Query, Rankings

Floats = NDArray[np.float64]
_BATCH = 256
_PROBES = 5
K = 100
"""How deep final rankings go: documents are found by their first chunk, so ten of them need more than ten chunks."""


@dataclass(frozen=True)
class Quote:
    """What a run will cost, before it runs."""

    queries: int
    configurations: int
    retrievals: int
    cached: int
    embeddings: int
    minutes: float
    llm_calls: int = 0
    dollars: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.configurations} configurations × {self.queries} queries: {self.retrievals} retrieval runs "
            f"({self.cached} from the cache), {self.embeddings} queries to embed, {self.llm_calls} LLM calls, "
            f"${self.dollars:.2f}, about {_duration(self.minutes)}."
        )


@dataclass(frozen=True)
class Outcome:
    """What came out: rankings and per-query scores of every contender."""

    plan: Plan
    snapshot: Snapshot
    rankings: tuple[Rankings, ...]
    scores: Mapping[str, Floats]
    """Measure -> (queries, contenders)."""
    latency: list[dict[str, Any]]
    index_bytes: list[int]
    memory_bytes: int
    dropped: int
    """Questions left out because their passage is gone."""
    steps: tuple[tuple[Step, ...], ...] = ()
    """What each contender's rerankers did, in order."""


class Bench:
    def __init__(
        self, kb: KnowledgeBase, layout: Layout | None = None, report: Report | None = None, fresh: bool = False
    ) -> None:
        self.kb = kb
        self.snapshot = kb.snapshot(layout)
        self.cache = RunCache(kb.data / "runs", read=not fresh)
        self.report: Report = report or (lambda what, done, total: None)

    def quote(self, plan: Plan) -> Quote:
        keys = {self._run_key(plan.exam, r, depth): r for (_, depth), r in plan.retrievers().items()}
        missing = [r for key, r in keys.items() if self.cache.rankings(key) is None]
        embeddings = len(plan.exam.queries) * sum(r.signal == "dense" for r in missing)
        cached = len(keys) - len(missing)
        seconds = sum(self._seconds(r, plan.exam) for r in missing)
        minutes = (seconds + self._rerank_seconds(plan)) / 60
        return Quote(len(plan.exam.queries), len(plan.contenders), len(keys), cached, embeddings, minutes)

    def _seconds(self, retriever: Retriever, exam: Exam) -> float:
        """How long all questions will take, judged by a few of them; and building first what is not there yet."""
        if not self.kb.indexes.has(index_key(self.snapshot, retriever)):
            sample = self.snapshot[range(0, len(self.snapshot), max(1, len(self.snapshot) // _PROBES))][:_PROBES]
            retriever.build(sample, Services())  # kernels compile and models load here, outside the time
            started = time.perf_counter()
            retriever.build(sample, Services())
            return (time.perf_counter() - started) / max(1, len(sample)) * (len(self.snapshot) + len(exam.queries))
        few = [Query(query.text) for query in exam.queries[:: max(1, len(exam.queries) // _PROBES)][:_PROBES]]
        index = self.kb.index(retriever, self.snapshot, self.report)
        started = time.perf_counter()
        for query in few:
            index.search(retriever, [query], 10)
        return (time.perf_counter() - started) / len(few) * len(exam.queries)

    def _rerank_seconds(self, plan: Plan) -> float:
        """Of rerankers that run here, at most: a pair that was scored before costs nothing again."""
        if not plan.exam.queries:
            return 0.0
        reranking = self._reranking(plan.exam)
        work = {
            (" + ".join(map(str, pipeline.retrieve)), str(pipeline.fuse), getattr(reranker, "work", "")): reranker
            for pipeline in (contender.pipeline for contender in plan.contenders)
            for reranker in pipeline.rerank
            if getattr(reranker, "runs_here", False) and not self.cache.data(self._reranked_key(pipeline, plan.exam))
        }
        probe = Query(plan.exam.queries[0].text)
        return len(plan.exam.queries) * sum(reranking.seconds(r, probe, len(self.snapshot)) for r in work.values())

    def _reranked_key(self, pipeline: Pipeline, exam: Exam) -> str:
        """Of the mark that a pipeline's rerankers have been through an exam, so that a second run is not quoted."""
        stamps = [stamp(reranker, self.kb.services) for reranker in pipeline.rerank]
        return self.cache.key("reranked", self.snapshot.fingerprint, exam.fingerprint, pipeline, *stamps)

    def _reranking(self, exam: Exam) -> Reranking:
        return Reranking(self.snapshot, self.kb.services, self.cache, self.snapshot.fingerprint, exam.fingerprint)

    def run(self, plan: Plan) -> Outcome:
        documents = {document.id: document.text for document in self.kb.documents()}
        exam, dropped = relocate(plan.exam, documents)
        if not exam.queries:
            raise ExamError(f"None of the questions of {plan.exam.label} points at a document that is here.")
        plan = replace(plan, exam=exam)
        queries = [Query(query.text, query.id) for query in exam.queries]
        found = {key: self._retrieve(plan, key[1], r, queries) for key, r in plan.retrievers().items()}
        finished = [self._finish(contender, found, queries, exam) for contender in plan.contenders]
        rankings = tuple(ranking for ranking, _ in finished)
        scores = self._scores(plan, rankings, documents)
        latency = self._latency(plan, queries)
        sizes = [sum(self._index_bytes(r) for r in contender.pipeline.retrieve) for contender in plan.contenders]
        steps = tuple(steps for _, steps in finished)
        return Outcome(plan, self.snapshot, rankings, scores, latency, sizes, _peak_memory(), dropped, steps)

    # ------------------------------------------------------------ rankings

    def _run_key(self, exam: Exam, retriever: Retriever, depth: int) -> str:
        return self.cache.key(
            "retrieve", self.snapshot.fingerprint, retriever, retriever.index_spec, depth, exam.fingerprint
        )

    def _retrieve(self, plan: Plan, depth: int, retriever: Retriever, queries: Sequence[Query]) -> Rankings:
        key = self._run_key(plan.exam, retriever, depth)
        known = self.cache.rankings(key)
        if known is not None:
            return known
        what = f"Retrieving {retriever.name}"
        index = self.kb.index(retriever, self.snapshot, self.report)
        parts = []
        for at in range(0, len(queries), _BATCH):
            self.report(what, at, len(queries))
            parts.append(index.search(retriever, queries[at : at + _BATCH], depth))
        rankings = stack(parts)
        self.cache.put_rankings(key, rankings)
        self.report(what, len(queries), len(queries))
        return rankings

    def _finish(
        self, contender: Contender, found: Mapping[tuple[str, int], Rankings], queries: Sequence[Query], exam: Exam
    ) -> tuple[Rankings, tuple[Step, ...]]:
        pipeline = contender.pipeline
        lists = [found[str(retriever), pipeline.depth] for retriever in pipeline.retrieve]
        # Only completing rankings needs the indexes: a run from the cache must not load them for nothing.
        indexes = [self.kb.index(r, self.snapshot) for r in pipeline.retrieve] if pipeline.completes else []
        best = pipeline.join(queries, lists, K, indexes, self.kb.services)
        steps: list[Step] = []
        reranking = self._reranking(exam)
        for reranker in pipeline.rerank:
            told = partial(self.report, f"Reranking {contender.name}")
            steps.append(reranking.run(reranker, queries, best, K, told))
            best = steps[-1].after
        if steps and not any(step.fell_back for step in steps):
            self.cache.put_data(self._reranked_key(pipeline, exam), True)
        return best, tuple(steps)

    # ------------------------------------------------------------ scores

    def _scores(self, plan: Plan, rankings: Sequence[Rankings], documents: Mapping[str, str]) -> dict[str, Floats]:
        judge = Judge(plan.exam.queries, places_of(self.snapshot, documents))
        spans = _SpanScores(plan, self.snapshot, documents)
        table: dict[str, Floats] = {str(m): np.zeros((len(plan.exam.queries), len(rankings))) for m in plan.measures}
        for c, ranking in enumerate(rankings):
            self.report("Scoring", c + 1, len(rankings))
            gains = {level: judge.gains(ranking, level) for level in {m.level for m in plan.measures if not m.of_spans}}
            for m in plan.measures:
                scores = spans.of(ranking, m) if m.of_spans else MEASURES[m.name](gains[m.level], m.k)
                table[str(m)][:, c] = scores
        return table

    # ------------------------------------------------------------ latency, size

    def _latency(self, plan: Plan, queries: Sequence[Query]) -> list[dict[str, Any]]:
        """Measured once per stage and machine; a repeated run reports what the first one measured."""
        specs = [str(contender.pipeline) for contender in plan.contenders]
        key = self.cache.key("latency", self.snapshot.fingerprint, plan.exam.fingerprint, *specs)
        known: list[dict[str, Any]] | None = self.cache.data(key)
        if known is not None:
            return known
        self.report("Timing", 0, 1)
        timed = measure_latency(
            plan.contenders,
            queries,
            10,
            lambda r: self.kb.index(r, self.snapshot, self.report),
            self.snapshot,
            self.kb.services,
        )
        self.cache.put_data(key, timed)
        self.report("Timing", 1, 1)
        return timed

    def _index_bytes(self, retriever: Retriever) -> int:
        return self.kb.indexes.size(index_key(self.snapshot, retriever))


def stack(parts: Sequence[Rankings]) -> Rankings:
    """Batches of queries as one."""
    ordinals = np.concatenate([part.ordinals for part in parts])
    return replace(parts[0], ordinals=ordinals, scores=np.concatenate([part.scores for part in parts]))


class _SpanScores:
    """The gold-span measures, computed once per ranking and k however many of them are asked for."""

    def __init__(self, plan: Plan, snapshot: Snapshot, documents: Mapping[str, str]) -> None:
        self._plan = plan
        self._snapshot = snapshot
        self._documents = documents
        self._judge: Any = None
        self._last: tuple[int, int, Any] = (0, 0, None)

    def of(self, ranking: Rankings, measure: Measure) -> Floats:
        if self._judge is None:
            self._judge = self._make()
        if self._last[:2] != (id(ranking), measure.k):
            self._last = (id(ranking), measure.k, self._judge.scores(ranking, measure.k))
        scores: Floats = self._last[2][measure.name]
        return scores

    def _make(self) -> Any:
        from surefind.measure.spans import SpanJudge

        answers = [
            [self._documents[j.document][j.start : j.end] for j in query.judgments if j.grade > 0]
            for query in self._plan.exam.queries
        ]
        rows = self._snapshot.rows
        ids = self._snapshot.document_ids
        texts = self._documents
        return SpanJudge(
            self._plan.exam.queries, answers, lambda ordinal: texts[ids[ordinal]][rows[ordinal, 4] : rows[ordinal, 5]]
        )


def places_of(snapshot: Snapshot, documents: Mapping[str, str]) -> Places:
    numbers = {id: number for number, id in enumerate(documents)}
    by_ordinal = np.array([numbers[id] for id in snapshot.document_ids], dtype=np.int64)
    return Places(by_ordinal, snapshot.rows[:, 4], snapshot.rows[:, 5], numbers)


def _duration(minutes: float) -> str:
    return f"{minutes * 60:.0f} s" if minutes < 2 else f"{minutes:.0f} minutes"


def _peak_memory() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
