"""Running a plan: each retriever once over all queries, every fusion as array arithmetic, every measure at once."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.bench.asked import llm_calls
from surefind.bench.cache import RunCache
from surefind.bench.ingestion import PROBE, seconds_per_character
from surefind.bench.latency import measure_latency
from surefind.bench.plan import Contender, Plan
from surefind.bench.reranking import Reranking, Step, stamp
from surefind.bench.scoring import SpanScores, places_of
from surefind.errors import ExamError
from surefind.exam.model import Exam
from surefind.exam.relocate import relocate
from surefind.families import enough, fold
from surefind.kb import KnowledgeBase
from surefind.llm.quote import quote
from surefind.measure.gains import Judge
from surefind.measure.ranks import MEASURES
from surefind.notes import Heard, collecting
from surefind.pipeline import Pipeline
from surefind.protocols import Retriever
from surefind.reach import Reach, innermost, offline
from surefind.services import Services
from surefind.snapshot import Snapshot
from surefind.sync import Report, index_key
from surefind.types import Query, Rankings

Floats = NDArray[np.float64]
_BATCH = 256
_PROBES = 5
_SEEN = 10
"""Measures down to this rank share one retrieval."""
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
    snapshots: tuple[Snapshot, ...]
    """What each contender searched; contenders of one layout share it."""
    judges: tuple[Judge, ...]
    rankings: tuple[Rankings, ...]
    scores: Mapping[str, Floats]
    """Measure -> (queries, contenders)."""
    latency: list[dict[str, Any]]
    index_bytes: list[int]
    ingestion: list[float | None]
    """Seconds per document, from nothing; known where layouts are compared."""
    memory_bytes: int
    dropped: int
    """Questions left out because their passage is gone."""
    steps: tuple[tuple[Step, ...], ...] = ()
    """What each contender's rerankers did, in order."""
    problems: tuple[str, ...] = ()
    """Where retrievers and fusers had to do without a model."""
    retrieved: Mapping[tuple[str, str, int], Rankings] = field(default_factory=dict)
    """What each retriever found, by the keys of `Plan.retrievers`."""

    @property
    def snapshot(self) -> Snapshot:
        """That of the first contender: the only one unless layouts are compared."""
        return self.snapshots[0]


class Bench:
    def __init__(self, kb: KnowledgeBase, report: Report | None = None, fresh: bool = False) -> None:
        self.kb = kb
        self.cache = RunCache(kb.data / "runs", read=not fresh)
        self.report: Report = report or (lambda what, done, total: None)
        self._problems: list[str] = []

    def snapshot(self, contender: Contender) -> Snapshot:
        """The documents as this contender has them cut."""
        return self.kb.snapshot(contender.layout, self.report)

    def fingerprint(self, plan: Plan) -> str:
        """That of the documents, cut in every way that the plan asks for."""
        return " ".join(dict.fromkeys(self.snapshot(contender).fingerprint for contender in plan.contenders))

    # ------------------------------------------------------------ what it will cost

    def quote(self, plan: Plan) -> Quote:
        """Layouts that are not made yet are judged by a piece of text, and not made for it."""
        jobs = plan.retrievers().values()
        made = [job for job in jobs if self.kb.has_cut(job[0].layout)]
        keys = {self._run_key(plan, *job): job for job in made}
        missing = [job for key, job in keys.items() if self.cache.rankings(key) is None]
        unmade = [job for job in jobs if job not in made]
        # Layouts share the vectors of the questions.
        encoders = {str(r) for _, r in (*missing, *unmade) if r.signal == "dense"}
        embeddings = len(plan.exam.queries) * len(encoders)
        seconds = sum(self._seconds(self.snapshot(contender), r, plan.exam) for contender, r in missing)
        seconds += self._seconds_to_make(unmade) + self._rerank_seconds(plan)
        runs = len(keys) + len(unmade)
        cached = len(keys) - len(missing)
        asked = quote(self.kb.services.llm, llm_calls(self.kb, plan))
        minutes = seconds / 60 + asked.minutes
        size = len(plan.exam.queries), len(plan.contenders), runs, cached, embeddings
        return Quote(*size, minutes, asked.calls, asked.dollars)

    def _seconds(self, snapshot: Snapshot, retriever: Retriever, exam: Exam) -> float:
        """How long all questions will take, judged by a few of them; and building first what is not there yet. Without
        what a model around the retriever will take: that is quoted in calls."""
        retriever = innermost(retriever)
        if not self.kb.indexes.has(index_key(snapshot, retriever)):
            sample = snapshot[range(0, len(snapshot), max(1, len(snapshot) // _PROBES))][:_PROBES]
            timed = offline(retriever)
            timed.build(sample, Services())  # kernels compile and models load here, outside the time
            started = time.perf_counter()
            timed.build(sample, Services())
            return (time.perf_counter() - started) / max(1, len(sample)) * (len(snapshot) + len(exam.queries))
        few = [Query(query.text) for query in exam.queries[:: max(1, len(exam.queries) // _PROBES)][:_PROBES]]
        index = self.kb.index(retriever, snapshot, self.report)
        started = time.perf_counter()
        for query in few:
            index.search(retriever, [query], 10)
        return (time.perf_counter() - started) / len(few) * len(exam.queries)

    def _rerank_seconds(self, plan: Plan) -> float:
        """Of rerankers that run here, at most: a pair that was scored before costs nothing again."""
        if not plan.exam.queries:
            return 0.0
        work = {
            (str(contender.layout), _path(contender.pipeline), getattr(reranker, "work", "")): (contender, reranker)
            for contender in plan.contenders
            for reranker in contender.pipeline.rerank
            if getattr(reranker, "runs_here", False)
            and self.kb.has_cut(contender.layout)
            and not self.cache.data(self._reranked_key(contender, plan.exam))
        }
        probe = Query(plan.exam.queries[0].text)
        return len(plan.exam.queries) * sum(
            self._reranking(contender, plan.exam).seconds(reranker, probe, len(self.snapshot(contender)))
            for contender, reranker in work.values()
        )

    def _reranked_key(self, contender: Contender, exam: Exam) -> str:
        """Of the mark that a pipeline's rerankers have been through an exam, so that a second run is not quoted."""
        stamps = [stamp(reranker, self.kb.services) for reranker in contender.pipeline.rerank]
        fingerprint = self.snapshot(contender).fingerprint
        return self.cache.key("reranked", fingerprint, exam.fingerprint, contender.pipeline, *stamps)

    def _reranking(self, contender: Contender, exam: Exam) -> Reranking:
        snapshot = self.snapshot(contender)
        index_of = partial(self.kb.index, snapshot=snapshot, report=self.report)
        reach = Reach(contender.pipeline, index_of, snapshot, self.kb.services)
        scope = snapshot.fingerprint, exam.fingerprint, _path(contender.pipeline)
        return Reranking(reach, self.kb.services, self.cache, *scope)

    def _seconds_to_make(self, jobs: Sequence[tuple[Contender, Retriever]]) -> float:
        documents = self.kb.documents() if jobs else []
        characters = sum(len(document.text) for document in documents)
        layouts = {str(contender.layout): contender.layout for contender, _ in jobs if contender.layout}
        rates = [
            seconds_per_character(documents, layout, [r for c, r in jobs if str(c.layout) == spec], PROBE)
            for spec, layout in layouts.items()
        ]
        return sum(rates) * characters

    # ------------------------------------------------------------ the run

    def run(self, plan: Plan) -> Outcome:
        documents = {document.id: document.text for document in self.kb.documents()}
        exam, dropped = relocate(plan.exam, documents)
        if not exam.queries:
            raise ExamError(f"None of the questions of {plan.exam.label} points at a document that is here.")
        plan = replace(plan, exam=exam)
        self._problems = []
        queries = [Query(query.text, query.id) for query in exam.queries]
        snapshots = tuple(self.snapshot(contender) for contender in plan.contenders)
        for contender, snapshot in zip(plan.contenders, snapshots, strict=True):  # before anything is spent
            contender.pipeline.check(snapshot, self.kb.services)
        found = {key: self._retrieve(plan, *job, queries) for key, job in plan.retrievers().items()}
        finished = [self._finish(plan, contender, found, queries) for contender in plan.contenders]
        rankings = tuple(ranking for ranking, _ in finished)
        judges = {id(one): Judge(exam.queries, places_of(one, documents)) for one in snapshots}
        scores = self._scores(plan, rankings, snapshots, judges, documents)
        pairs = list(zip(plan.contenders, snapshots, strict=True))
        sizes = [sum(self._index_bytes(one, r) for r in contender.pipeline.retrieve) for contender, one in pairs]
        ingestion = [self._ingestion(contender) for contender in plan.contenders]
        latency = self._latency(plan, queries)
        shared = tuple(judges[id(one)] for one in snapshots)
        steps = tuple(steps for _, steps in finished)
        return Outcome(
            plan, snapshots, shared, rankings, scores, latency, sizes, ingestion, _peak_memory(), dropped, steps,
            tuple(self._problems), found,
        )  # fmt: skip

    # ------------------------------------------------------------ rankings

    def _depth(self, plan: Plan, contender: Contender) -> int:
        """How deep to retrieve: with parents, until every measure has the different ones it counts."""
        families = self.snapshot(contender).families
        most = max(_SEEN, *(measure.k for measure in plan.measures))
        deepest = 0 if families is None else enough(families, most)
        return max(contender.pipeline.depth, deepest)

    def _run_key(self, plan: Plan, contender: Contender, retriever: Retriever) -> str:
        snapshot, depth = self.snapshot(contender), self._depth(plan, contender)
        scope = snapshot.fingerprint, retriever.index_spec, depth, plan.exam.fingerprint
        return self.cache.key("retrieve", *scope, retriever, stamp(retriever, self.kb.services))

    def _retrieve(self, plan: Plan, contender: Contender, retriever: Retriever, queries: Sequence[Query]) -> Rankings:
        key = self._run_key(plan, contender, retriever)
        known = self.cache.rankings(key)
        if known is not None:
            return known
        what = f"Retrieving {retriever.name}"
        index = self.kb.index(retriever, self.snapshot(contender), self.report)
        depth = self._depth(plan, contender)
        parts = []
        with collecting() as heard:
            for at in range(0, len(queries), _BATCH):
                self.report(what, at, len(queries))
                parts.append(index.search(retriever, queries[at : at + _BATCH], depth))
                self.kb.services.llm.meter.check()
        rankings = stack(parts)
        if not self._wanting(retriever.name, heard):
            self.cache.put_rankings(key, rankings)
        self.report(what, len(queries), len(queries))
        return rankings

    def _wanting(self, who: str, heard: Heard) -> bool:
        """Whether a model did not answer all that it was asked, which is a problem of the report."""
        if heard.without:
            self._problems.append(f"{who} went without a model for {heard.without} questions ({heard.text})")
        elif heard.stood_in:
            self._problems.append(f"{who} had {heard.stood_in} answers from the fallback ({heard.text})")
        return bool(heard.without or heard.stood_in)

    def _finish(
        self,
        plan: Plan,
        contender: Contender,
        found: Mapping[tuple[str, str, int], Rankings],
        queries: Sequence[Query],
    ) -> tuple[Rankings, tuple[Step, ...]]:
        pipeline, snapshot = contender.pipeline, self.snapshot(contender)
        families = snapshot.families
        width = K if families is None else max(K, self._depth(plan, contender))
        lists = [found[str(contender.layout or ""), str(retriever), pipeline.depth] for retriever in pipeline.retrieve]
        # Only completing rankings needs the indexes: a run from the cache must not load them for nothing.
        indexes = [self.kb.index(r, snapshot) for r in pipeline.retrieve] if pipeline.completes else []
        with collecting() as heard:
            best = pipeline.join(queries, lists, width, indexes, self.kb.services, snapshot)
        self.kb.services.llm.meter.check()
        self._wanting(contender.name, heard)
        steps: list[Step] = []
        reranking = self._reranking(contender, plan.exam)
        for reranker in pipeline.rerank:
            told = partial(self.report, f"Reranking {contender.name}")
            steps.append(reranking.run(reranker, queries, best, width, told))
            best = steps[-1].after
        if steps and not any(step.fell_back or step.stood_in for step in steps):
            self.cache.put_data(self._reranked_key(contender, plan.exam), True)
        return best if families is None else fold(best, families, K), tuple(steps)

    # ------------------------------------------------------------ scores

    def _scores(
        self,
        plan: Plan,
        rankings: Sequence[Rankings],
        snapshots: Sequence[Snapshot],
        judges: Mapping[int, Judge],
        documents: Mapping[str, str],
    ) -> dict[str, Floats]:
        spans = {id(one): SpanScores(plan, one, judges[id(one)].places, documents) for one in snapshots}
        table: dict[str, Floats] = {str(m): np.zeros((len(plan.exam.queries), len(rankings))) for m in plan.measures}
        levels = {m.level for m in plan.measures if not m.of_spans}
        for c, (ranking, snapshot) in enumerate(zip(rankings, snapshots, strict=True)):
            self.report("Scoring", c + 1, len(rankings))
            gains = {level: judges[id(snapshot)].gains(ranking, level) for level in levels}
            for m in plan.measures:
                scores = spans[id(snapshot)].of(ranking, m) if m.of_spans else MEASURES[m.name](gains[m.level], m.k)
                table[str(m)][:, c] = scores
        return table

    # ------------------------------------------------------------ latency, size, ingestion

    def _latency(self, plan: Plan, queries: Sequence[Query]) -> list[dict[str, Any]]:
        """Measured once per stage and machine; a repeated run reports what the first one measured."""
        key = self.cache.key("latency", self.fingerprint(plan), plan.exam.fingerprint, *plan.contenders)
        known: list[dict[str, Any]] | None = self.cache.data(key)
        if known is not None:
            return known
        timed: dict[int, dict[str, Any]] = {}
        for layout in dict.fromkeys(contender.layout for contender in plan.contenders):
            self.report("Timing", len(timed), len(plan.contenders))
            places = [i for i, contender in enumerate(plan.contenders) if contender.layout == layout]
            timed.update(zip(places, self._timed(plan, [plan.contenders[i] for i in places], queries), strict=True))
        found = [timed[i] for i in range(len(plan.contenders))]
        self.cache.put_data(key, found)
        self.report("Timing", len(timed), len(plan.contenders))
        return found

    def _timed(self, plan: Plan, contenders: Sequence[Contender], queries: Sequence[Query]) -> list[dict[str, Any]]:
        """Contenders of one layout, each at the depth that it needs there."""
        snapshot = self.snapshot(contenders[0])
        deep = [replace(c, pipeline=replace(c.pipeline, depth=self._depth(plan, c))) for c in contenders]
        index_of = partial(self.kb.index, snapshot=snapshot, report=self.report)
        return measure_latency(deep, queries, 10, index_of, snapshot, self.kb.services)

    def _ingestion(self, contender: Contender) -> float | None:
        """Seconds per document, on the first run on this machine."""
        if contender.layout is None:
            return None
        specs = [retriever.index_spec for retriever in contender.pipeline.retrieve]
        key = self.cache.key("ingestion", self.snapshot(contender).fingerprint, *specs)
        known: float | None = self.cache.data(key)
        if known is None:
            self.report(f"Timing {contender.name}", 0, 1)
            documents = self.kb.documents()
            rate = seconds_per_character(documents, contender.layout, contender.pipeline.retrieve)
            known = rate * sum(len(document.text) for document in documents) / len(documents)
            self.cache.put_data(key, known)
        return known

    def _index_bytes(self, snapshot: Snapshot, retriever: Retriever) -> int:
        return self.kb.indexes.size(index_key(snapshot, retriever))


def _path(pipeline: Pipeline) -> str:
    """What a reranker is given: the pipeline without its rerankers."""
    return str(replace(pipeline, rerank=()))


def stack(parts: Sequence[Rankings]) -> Rankings:
    """Batches of queries as one."""
    ordinals = np.concatenate([part.ordinals for part in parts])
    return replace(parts[0], ordinals=ordinals, scores=np.concatenate([part.scores for part in parts]))


def _duration(minutes: float) -> str:
    return f"{minutes * 60:.0f} s" if minutes < 2 else f"{minutes:.0f} minutes"


def _peak_memory() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
