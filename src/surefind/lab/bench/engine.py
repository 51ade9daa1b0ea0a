"""Runs a plan: each retriever once over all queries, fusions as array arithmetic, then all measures.

Runs the stages of a configuration on a whole exam.

Retrievers have run already, once for all configurations. Rerankers run in batches, and their rankings are cached.

The memory that this process has used at most.

Times ingestion with a layout (cutting, embedding and indexing with an empty cache) on a sample of the text.

Scores rankings: positions of chunks, the measures that compare text, and the table of all scores.
"""

from __future__ import annotations

import hashlib
import resource
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from surefind.base.abilities import declared
from surefind.base.access import Access
from surefind.base.disk.sealed import to_json
from surefind.base.errors import ExamError
from surefind.base.protocols import Fuser, OnProgress, Reranker, Retriever, Services
from surefind.base.running import CollectedNotes, collecting
from surefind.base.types import Document, Floats, Query, Rankings
from surefind.engine.search.pipeline import PipelinePassages, Reading, StageHooks, Work
from surefind.engine.search.reader import Searcher
from surefind.engine.services import LocalServices
from surefind.engine.store.backend import Spans, View
from surefind.engine.store.indexes import identity, needed, offline
from surefind.engine.write.layout import Layout
from surefind.kb import KnowledgeBase
from surefind.lab.bench.latency import Timing, measure_latency
from surefind.lab.bench.plan import Contender, Plan, Unasked
from surefind.lab.bench.reranking import Reranking, RunCache, Step, stacked
from surefind.lab.exam.model import Judgment, relocate
from surefind.lab.measure.ranks import MEASURES, SPAN_MEASURES, ChunkSpans, Judge, Measure
from surefind.lab.measure.spans import OverlapJudge


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


SAMPLE = 40_000
"""Characters of text that are timed for a report."""
PROBE = 8_000
"""Characters of text that are timed for a cost estimate: fewer, because the user waits for it."""
_FROM = 10
"""Documents that a sample is taken from, about."""
_WARM = Document(
    "warm-up", "The first text compiles kernels and loads models.\n\nThe second one is not slowed down by it."
)


def seconds_per_character(
    documents: Sequence[Document],
    layout: Layout,
    retrievers: Iterable[Retriever],
    folder: Path,
    characters: int = SAMPLE,
) -> float:
    """Seconds per character of text to cut, embed and index documents. Paths in specs are relative to `folder`.

    No cache is used, so that work done earlier for another layout does not make this one look cheap. Work of language
    models is left out: it is estimated in calls.
    """
    layout = layout.offline()
    taken = sample(documents, characters)
    services = LocalServices(folder=folder)
    wanted = needed((offline(r) for r in retrievers), services)
    _ingest([_WARM], layout, wanted, services)
    started = time.perf_counter()
    _ingest(taken, layout, wanted, services)
    return (time.perf_counter() - started) / max(1, sum(len(document.text) for document in taken))


def sample(documents: Sequence[Document], characters: int) -> list[Document]:
    """Documents spread evenly over the collection, up to `characters` in all. Only the last one is cut, because the
    cost of some layouts depends on the length of a document."""
    taken: list[Document] = []
    left = characters
    for document in documents[:: max(1, len(documents) // _FROM)]:
        if left > 0:
            taken.append(replace(document, text=document.text[:left]))
            left -= len(document.text)
    return taken


def _ingest(documents: Sequence[Document], layout: Layout, retrievers: Sequence[Retriever], services: Services) -> None:
    chunks = [chunk for document in documents for chunk in layout.cut(document, services)]
    for retriever in retrievers:
        retriever.build(chunks, services)


def score_table(
    plan: Plan,
    rows: Sequence[tuple[Rankings, View]],
    judges: Mapping[int, Judge],
    documents: Mapping[str, str],
    report: OnProgress,
) -> dict[str, Floats]:
    """For each measure, the scores as an array of shape (queries, contenders). `rows` has the rankings and the view of
    each contender; `judges` are those of the views, by their id."""
    spans = {id(view): SpanScores(plan, view.spans(), judges[id(view)].places, documents) for _, view in rows}
    levels = {m.level for m in plan.measures if not m.of_spans}
    shape = len(plan.exam.queries), len(rows)
    table: dict[str, Floats] = {str(m): np.zeros(shape) for m in plan.measures}
    for c, (ranking, view) in enumerate(rows):
        report("Scoring", c + 1, len(rows))
        gains = {level: judges[id(view)].gains(ranking, level) for level in levels}
        for m in plan.measures:
            of_spans = spans[id(view)].of(ranking, m) if m.of_spans else None
            table[str(m)][:, c] = MEASURES[m.name](gains[m.level], m.k) if of_spans is None else of_spans
    return table


class SpanScores:
    """Computes the gold-span measures, all together once per ranking and k."""

    def __init__(self, plan: Plan, spans: Spans, places: ChunkSpans, documents: Mapping[str, str]) -> None:
        self._plan = plan
        self._spans = spans
        self._places = places
        self._documents = documents
        self._scores: dict[tuple[bool, int], Mapping[str, Floats]] = {}
        self._ranking: Rankings | None = None

    def of(self, ranking: Rankings, measure: Measure) -> Floats:
        if self._ranking is not ranking:
            self._ranking, self._scores = ranking, {}
        of_text = measure.name in SPAN_MEASURES
        if (of_text, measure.k) not in self._scores:
            judge = self._texts if of_text else self._overlap
            self._scores[of_text, measure.k] = judge.scores(ranking, measure.k)
        return self._scores[of_text, measure.k][measure.name]

    @cached_property
    def _overlap(self) -> OverlapJudge:
        return OverlapJudge(self._plan.exam.queries, self._places)

    @cached_property
    def _texts(self) -> Any:
        from surefind.lab.measure.spans import SpanJudge

        queries = self._plan.exam.queries
        answers = [[self._passage(j) for j in query.judgments if j.is_answer] for query in queries]
        segments = [[self._passage(j) for j in query.segments] for query in queries]
        return SpanJudge(answers, self._text, segments)

    def _passage(self, j: Judgment) -> str:
        return self._documents[j.document][j.start : j.end]

    def _text(self, chunk_id: int) -> str:
        spans, at = self._spans, self._spans.position(chunk_id)
        return self._documents[spans.document(chunk_id)][spans.starts[at] : spans.ends[at]]


def places_of(spans: Spans, documents: Mapping[str, str]) -> ChunkSpans:
    numbers = {chunk_id: number for number, chunk_id in enumerate(documents)}
    of_names = np.array([numbers[chunk_id] for chunk_id in spans.names], dtype=np.int64)
    return ChunkSpans(of_names[spans.documents], spans.starts, spans.ends, numbers, spans.at)


def peak_memory() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


OWNER = Access.owner()
"""Training and timings use all documents, whatever their access rules."""
_BATCH = 256
"""Queries per search call; progress is reported and the budget checked between calls."""
_MIN_RANKED = 10
"""Every ranking has at least this many passages, so that all measures up to @10 share one retrieval."""


@dataclass(frozen=True)
class Ranked:
    """Rankings of every contender, and how they were made."""

    rankings: tuple[Rankings, ...]
    steps: tuple[tuple[Step, ...], ...]
    """For each contender, the effect of its rerankers in order."""
    retrieved: Mapping[tuple[str, str, int], Rankings]
    """The rankings of each retriever, by the keys of `Plan.retrievers`."""
    problems: tuple[str, ...]
    """Messages about retrievers and fusers whose model failed."""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """Rankings and per-query scores of every contender."""

    plan: Plan
    views: tuple[View, ...]
    """The view that each contender searched; contenders with the same layout share it."""
    judges: tuple[Judge, ...]
    rankings: tuple[Rankings, ...]
    scores: Mapping[str, Floats]
    """For each measure, the scores as an array of shape (queries, contenders)."""
    left_out: Unasked
    """The questions that were not asked."""
    steps: tuple[tuple[Step, ...], ...] = ()
    """For each contender, the effect of its rerankers in order."""
    problems: tuple[str, ...] = ()
    """Messages about retrievers and fusers whose model failed."""
    retrieved: Mapping[tuple[str, str, int], Rankings] = field(default_factory=dict)
    """The rankings of each retriever, by the keys of `Plan.retrievers`."""

    @property
    def view(self) -> View:
        """The view of the first contender, which is the only view unless layouts are compared."""
        return self.views[0]


@dataclass(frozen=True, kw_only=True)
class Outcome(Scored):
    """The result of a run: scores, and what each contender costs."""

    latency: list[Timing]
    index_bytes: list[int]
    ingestion: list[float | None]
    """Seconds per document to cut, embed and index with an empty cache; None unless layouts are compared."""
    memory_bytes: int


class Bench:
    """Runs plans on a knowledge base and caches the results."""

    def __init__(
        self,
        kb: KnowledgeBase,
        report: OnProgress | None = None,
        fresh: bool = False,
        reader: Searcher | None = None,
        ahead: Callable[[Bench, Plan], None] | None = None,
    ) -> None:
        """`reader` is used for the layout of the settings, instead of the reader of the current generation. `ahead` is
        called before contenders are ranked, and may put rankings into the cache."""
        self._ahead = ahead
        self.kb = kb
        self.cache = RunCache(kb.data / "runs", read=not fresh)
        self.report: OnProgress = report or (lambda what, done, total: None)
        self._readers: dict[str, Searcher] = {"": reader} if reader else {}
        """One reader per layout, held for the whole benchmark, so that a sync in the meantime changes nothing."""
        self._problems: list[str] = []

    def build(self, plan: Plan) -> None:
        """Builds the missing layouts and indexes that the plan needs."""
        for layout in dict.fromkeys(contender.layout for contender in plan.contenders):
            wanted = [r for c in plan.contenders if c.layout == layout for r in c.pipeline.retrieve]
            self.kb.build_for(wanted, layout, self.report)

    def reader(self, contender: Contender) -> Searcher:
        """The reader of this contender's layout."""
        spec = str(contender.layout or "")
        if spec not in self._readers:
            self._readers[spec] = self.kb.reader(contender.layout)
        return self._readers[spec]

    def view(self, contender: Contender) -> View:
        return self.reader(contender).view

    def fingerprint(self, plan: Plan) -> str:
        """The fingerprint of the documents in all layouts of the plan."""
        return " ".join(dict.fromkeys(self.view(contender).fingerprint for contender in plan.contenders))

    # ------------------------------------------------------------ the run

    def run(self, plan: Plan) -> Outcome:
        """Scores the contenders and measures their latency, size and ingestion."""
        scored = self.score(plan)
        plan = scored.plan
        sizes = [self.index_bytes(contender) for contender in plan.contenders]
        ingestion = [self.ingestion(contender) for contender in plan.contenders]
        latency = self.latency(plan)
        outcome = {field.name: getattr(scored, field.name) for field in fields(scored)}
        return Outcome(**outcome, latency=latency, index_bytes=sizes, ingestion=ingestion, memory_bytes=peak_memory())

    def score(self, plan: Plan) -> Scored:
        """Ranks and scores every question with every contender."""
        self.build(plan)
        plan, documents, left_out = self.relocated(plan)
        exam = plan.exam
        if len({self.reader(contender).generation for contender in plan.contenders}) > 1:
            raise ExamError("The documents changed while the benchmark was starting. Run it again.")
        views = tuple(self.view(contender) for contender in plan.contenders)
        ranked = self.rank(plan)
        judges = {id(view): Judge(exam.queries, places_of(view.spans(), documents)) for view in views}
        rows = list(zip(ranked.rankings, views, strict=True))
        return Scored(
            plan=plan,
            views=views,
            judges=tuple(judges[id(view)] for view in views),
            rankings=ranked.rankings,
            scores=score_table(plan, rows, judges, documents, self.report),
            left_out=left_out,
            steps=ranked.steps,
            problems=ranked.problems,
            retrieved=ranked.retrieved,
        )

    def relocated(self, plan: Plan) -> tuple[Plan, dict[str, str], Unasked]:
        """Returns the plan with gold in the current documents, the texts of these by id, and how many questions were
        left out, because their passage is gone or the audience may not read it."""
        documents = {document.id: document.text for document in self.reader(plan.contenders[0]).documents(OWNER)}
        admitted = self.view(plan.contenders[0]).admitted(plan.access)
        exam, dropped = relocate(plan.exam, {name: text for name, text in documents.items() if name in admitted})
        if not exam.queries:
            raise ExamError(
                f"No question of {plan.exam.label} points at a document of this knowledge base. Sync the documents "
                "that the exam was written for, name the groups that may read them (--as), or choose another exam "
                "(--exam)."
            )
        gone = relocate(plan.exam, documents)[1] if dropped and len(admitted) < len(documents) else dropped
        return replace(plan, exam=exam), documents, Unasked(gone, dropped - gone)

    # ------------------------------------------------------------ rankings

    def rank(self, plan: Plan) -> Ranked:
        """Ranks the passages for every question with every contender. The judgments of the exam are not used."""
        self._problems = []
        for contender in plan.contenders:  # find mistakes before computing anything
            contender.pipeline.check(self.view(contender), self.kb.services)
        if self._ahead:
            self._ahead(self, plan)
        queries = [Query(query.text, query.id) for query in plan.exam.queries]
        found = {key: self._retrieve(plan, *job, queries) for key, job in plan.retrievers().items()}
        want = max(_MIN_RANKED, *(measure.k for measure in plan.measures))
        rankings, steps = [], []
        for contender in plan.contenders:
            reading = Reading(self.view(contender), self.kb.services, plan.access)
            hooks = ExamHooks(contender, queries, found, self.reranking(contender, plan), self._fused, self.report)
            rankings.append(contender.pipeline.rank(queries, want, reading, hooks))
            steps.append(tuple(hooks.steps))
            if steps[-1] and not any(step.fell_back or step.stood_in for step in steps[-1]):
                self.cache.put_data(self.reranked_key(contender, plan), True)
        return Ranked(tuple(rankings), tuple(steps), found, tuple(self._problems))

    def run_key(self, plan: Plan, contender: Contender, retriever: Retriever) -> str:
        scope = (
            self.view(contender).fingerprint,
            identity(retriever, self.kb.services),
            contender.pipeline.depth,
            plan.exam.fingerprint,
        )
        audience = self.audience(plan, contender)
        return self.cache.key("retrieve", *scope, retriever, declared(retriever).stamp(self.kb.services), *audience)

    def audience(self, plan: Plan, contender: Contender) -> tuple[str, ...]:
        """The part of a cache key that tells audiences apart: a hash of the documents that this one may read, unless it
        may read all of them; and the backend, unless it is the local one."""
        view, where = self.view(contender), self.kb.settings.store.elsewhere
        if not view.withheld(plan.access):
            return where
        names = "\n".join(sorted(view.admitted(plan.access)))
        isolated = ("isolated",) if getattr(view, "isolated", False) else ()
        return (hashlib.blake2b(names.encode(), digest_size=8).hexdigest(), *isolated, *where)

    def _retrieve(self, plan: Plan, contender: Contender, retriever: Retriever, queries: Sequence[Query]) -> Rankings:
        key = self.run_key(plan, contender, retriever)
        known = self.cache.rankings(key)
        if known is not None:
            return known
        what = f"Retrieving {retriever.name}"
        view, depth = self.view(contender), contender.pipeline.depth
        parts = []
        with collecting() as collected:
            for at in range(0, len(queries), _BATCH):
                self.report(what, at, len(queries))
                parts.append(view.search(retriever, queries[at : at + _BATCH], depth, plan.access))
                self.kb.services.llm.meter.check()
        rankings = stacked(parts, depth)
        if not self._fell_back(retriever.name, collected):
            self.cache.put_rankings(key, rankings)
        self.report(what, len(queries), len(queries))
        return rankings

    def _fell_back(self, stage: str, collected: CollectedNotes) -> bool:
        """Returns whether the model failed for some questions; if so, adds this to the problems of the report."""
        if collected.without:
            self._problems.append(f"{stage}: the model failed for {collected.without} questions ({collected.text})")
        elif collected.stood_in:
            self._problems.append(
                f"{stage} got {collected.stood_in} answers from the fallback model ({collected.text})"
            )
        return bool(collected.without or collected.stood_in)

    def _fused(self, contender: Contender, collected: CollectedNotes) -> None:
        self.kb.services.meter.check()
        self._fell_back(contender.name, collected)

    def reranked_key(self, contender: Contender, plan: Plan) -> str:
        """The cache key that records that a pipeline's rerankers have run on an exam, so that the cost estimate of a
        second run leaves them out."""
        stamps = [declared(reranker).stamp(self.kb.services) for reranker in contender.pipeline.rerank]
        scope = self.view(contender).fingerprint, plan.exam.fingerprint, contender.pipeline
        return self.cache.key("reranked", *scope, *stamps, *self.audience(plan, contender))

    def reranking(self, contender: Contender, plan: Plan) -> Reranking:
        view = self.view(contender)
        source = PipelinePassages(contender.pipeline, Reading(view, self.kb.services, plan.access))
        path = " ".join([contender.pipeline.path, *self.audience(plan, contender)])
        scope = view.fingerprint, plan.exam.fingerprint, path
        return Reranking(source, self.kb.services, self.cache, *scope)

    # ------------------------------------------------------------ latency, size, ingestion

    def latency(self, plan: Plan) -> list[Timing]:
        """Latency of every contender on the plan's questions. Measured on the first run on this machine; later runs
        report the same times."""
        audience = self.audience(plan, plan.contenders[0])
        key = self.cache.key("latency", self.fingerprint(plan), plan.exam.fingerprint, *plan.contenders, *audience)
        known = self.cache.record(list[Timing], key)
        if known is not None:
            return known
        queries = [Query(query.text, query.id) for query in plan.exam.queries]
        timed: dict[int, Timing] = {}
        for layout in dict.fromkeys(contender.layout for contender in plan.contenders):
            self.report("Timing", len(timed), len(plan.contenders))
            places = [i for i, contender in enumerate(plan.contenders) if contender.layout == layout]
            contenders = [plan.contenders[i] for i in places]
            reading = Reading(self.view(contenders[0]), self.kb.services, plan.access)
            times = measure_latency(contenders, queries, reading)
            timed.update(zip(places, times, strict=True))
        timings = [timed[i] for i in range(len(plan.contenders))]
        self.cache.put_data(key, to_json(timings))
        self.report("Timing", len(timed), len(plan.contenders))
        return timings

    def ingestion(self, contender: Contender) -> float | None:
        """Seconds to ingest a document, measured on the first run on this machine."""
        if contender.layout is None:
            return None
        specs = [identity(retriever, self.kb.services) for retriever in contender.pipeline.retrieve]
        key = self.cache.key("ingestion", self.view(contender).fingerprint, *specs)
        known: float | None = self.cache.data(key)
        if known is None:
            self.report(f"Timing {contender.name}", 0, 1)
            documents = self.reader(contender).documents(OWNER)
            rate = seconds_per_character(documents, contender.layout, contender.pipeline.retrieve, self.kb.folder)
            known = rate * sum(len(document.text) for document in documents) / len(documents)
            self.cache.put_data(key, known)
            self.report(f"Timing {contender.name}", 1, 1)
        return known

    def index_bytes(self, contender: Contender) -> int:
        """Size of all indexes that the contender's retrievers need."""
        sizes, services = self.kb.index_sizes(contender.layout), self.kb.services
        return sum(sizes.get(used.index_spec(services), 0) for used in needed(contender.pipeline.retrieve, services))
