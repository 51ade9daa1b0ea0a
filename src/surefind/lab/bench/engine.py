"""Runs a plan: each retriever once over all queries, fusions as array arithmetic, then all measures."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from surefind.base.abilities import declared
from surefind.base.access import Access
from surefind.base.disk.records import to_json
from surefind.base.errors import ExamError
from surefind.base.protocols import OnProgress, Retriever
from surefind.base.running.notes import CollectedNotes, collecting
from surefind.base.types import Floats, Query, Rankings
from surefind.engine.search.passage_source import PipelinePassages
from surefind.engine.search.reader import Searcher
from surefind.engine.store.backend import View
from surefind.engine.store.needs import identity, needed
from surefind.kb import KnowledgeBase
from surefind.lab.bench.cache import RunCache
from surefind.lab.bench.hooks import ExamHooks
from surefind.lab.bench.ingestion import seconds_per_character
from surefind.lab.bench.latency import measure_latency
from surefind.lab.bench.left_out import Unasked
from surefind.lab.bench.memory import peak_memory
from surefind.lab.bench.plan import Contender, Plan
from surefind.lab.bench.reranking import Reranking, Step, stacked
from surefind.lab.bench.scoring import places_of, score_table
from surefind.lab.bench.timing import Timing
from surefind.lab.exam.relocate import relocate
from surefind.lab.measure.gains import Judge

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
            where = self.view(contender), self.kb.services, plan.access
            hooks = ExamHooks(contender, queries, found, self.reranking(contender, plan), self._fused, self.report)
            rankings.append(contender.pipeline.rank(queries, want, *where, hooks))
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
        source = PipelinePassages(contender.pipeline, view, self.kb.services, plan.access)
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
            view = self.view(contenders[0])
            times = measure_latency(contenders, queries, view, self.kb.services, plan.access)
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
