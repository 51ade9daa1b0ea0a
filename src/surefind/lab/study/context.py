"""What a stage of a study works with: one collection, the options, and short ways to score and to time.

Opens the collections of a study: exams of the knowledge base, or BEIR folders, each with a sample of questions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from surefind.base.access import Access
from surefind.base.disk.sealed import digest
from surefind.base.errors import UsageError
from surefind.base.prompts.values import Calls
from surefind.base.protocols import OnProgress, Retriever
from surefind.engine.chunk.semantic import Semantic
from surefind.engine.retrieve.dense import Dense
from surefind.engine.retrieve.graph_global import GraphGlobal
from surefind.engine.retrieve.graph_local import GraphLocal
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.write.layout import Layout
from surefind.kb import KnowledgeBase
from surefind.lab.bench.engine import OWNER, Bench, Scored
from surefind.lab.bench.latency import Timing
from surefind.lab.bench.plan import Contender, Plan, distinct, parse_measures
from surefind.lab.bench.run import beir_base, known_item_exam, unseen
from surefind.lab.exam.model import Exam
from surefind.lab.exam.store import ExamStore


@dataclass(frozen=True)
class Options:
    """What the user chose; all of it is part of the key of a stored result."""

    layout: str = ""
    """How documents are cut; "" is the layout of the settings."""
    llm: bool = False
    """Whether steps that ask a language model run."""
    encoders: tuple[str, ...] = ()
    """Specs of encoders. One takes the place of the default everywhere; more are compared, in studies that do so."""
    cheaper_llm: str = ""
    """A second language model, in studies that compare two."""
    limits: str = "paper"
    """How much of a document a model sees and how long its answers may be, in studies whose paper says so: "paper", or
    "surefind" for our own limits."""
    repeats: int = 1
    """How often the rows of language models are run, in studies that say how much they vary."""
    winner: str = ""
    """The layout of later stages, in studies that choose one; "" is the best one measured."""


@dataclass(frozen=True)
class Collection:
    """Documents and questions: a column of each table."""

    name: str
    kb: KnowledgeBase
    exam: Exam
    access: Access
    flags: tuple[str, ...]
    """The options of the command line that choose it: `--exam sample@1`."""
    rest: Exam | None = None
    """The questions of the exam that were not drawn, for stages that tune something."""


class RunContext:
    """One collection and the options of the run. Made once for each collection."""

    def __init__(
        self, collection: Collection, options: Options, report: OnProgress | None = None, fresh: bool = False
    ) -> None:
        self.collection = collection
        self.options = options
        self.kb, self.exam, self.access = collection.kb, collection.exam, collection.access
        self.services = collection.kb.services
        self.report: OnProgress = report or (lambda what, done, total: None)
        self.bench = Bench(collection.kb, report, fresh)
        self._fresh = fresh

    def on(self, exam: Exam) -> RunContext:
        """The same context with other questions."""
        return RunContext(replace(self.collection, exam=exam), self.options, self.report, self._fresh)

    @cached_property
    def layout(self) -> Layout | None:
        """The layout of the options; None is that of the settings."""
        return Layout.read(self.options.layout) if self.options.layout else None

    def contender(self, name: str, pipeline: str, layout: str = "") -> Contender:
        """A configuration under the name of its row. Without a layout it has that of the options."""
        made = Contender(name, Pipeline.parse(pipeline, name), Layout.read(layout) if layout else self.layout)
        return with_encoder(made, self.options.encoders[0]) if len(self.options.encoders) == 1 else made

    def contenders(self, pipelines: Mapping[str, str]) -> list[Contender]:
        """Configurations by the names of their rows. Equal ones become one, with the other names as aliases."""
        return distinct([self.contender(name, text) for name, text in pipelines.items()])

    def plan(self, contenders: Sequence[Contender], measures: Iterable[str]) -> Plan:
        """The plan of a comparison. Questions that a contender was trained on are left out."""
        made = Plan(tuple(contenders), self.exam, parse_measures(list(measures)), self.access)
        return unseen(made, self.services)

    def score(self, contenders: Sequence[Contender], measures: Iterable[str]) -> Scored:
        """Ranks and scores all questions with all contenders."""
        return self.bench.score(self.plan(contenders, measures))

    def latency(self, scored: Scored) -> list[Timing]:
        """Milliseconds per question of every contender, in total and by stage, as `bench.latency` measures them."""
        return self.bench.latency(scored.plan)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the documents, cut in the layout of the settings."""
        return self.kb.reader().fingerprint

    @property
    def audience(self) -> str:
        """The documents that the questions search, if they are not all, and who may read them."""
        view = self.kb.reader().view
        readable = sorted(view.admitted(self.access)) if view.withheld(self.access) else []
        return f"{self.access} {digest(readable)} {self.kb.settings.isolated}"

    def titles(self) -> dict[str, str]:
        return {document.id: document.title for document in self.kb.documents(OWNER)}


def with_encoder(contender: Contender, encoder: str) -> Contender:
    """The configuration with another encoder: in searches by vectors, in graphs, and in the cuts of `semantic`."""
    retrieve = tuple(_encoded(retriever, encoder) for retriever in contender.pipeline.retrieve)
    layout = contender.layout
    if layout is not None and isinstance(layout.chunk, Semantic):
        layout = replace(layout, chunk=layout.chunk.replace(model=encoder))
    return replace(contender, pipeline=replace(contender.pipeline, retrieve=retrieve), layout=layout)


def _encoded(retriever: Retriever, encoder: str) -> Retriever:
    return retriever.replace(model=encoder) if isinstance(retriever, Dense | GraphLocal | GraphGlobal) else retriever


def agreed(kb: KnowledgeBase, calls: Sequence[Calls]) -> None:
    """Agrees to any calls."""


@dataclass(frozen=True)
class ExamRequest:
    """What a study writes its exam from."""

    kb: KnowledgeBase
    access: Access
    """Admits the documents that questions are about."""
    asks: bool
    """Whether a language model may be asked."""
    agree: Callable[[KnowledgeBase, Sequence[Calls]], None] = agreed
    """Is told the calls before the model is asked."""
    report: OnProgress | None = None
    tell: Callable[[str], None] | None = None


WritesExam = Callable[[ExamRequest], Exam]
"""Writes the exam of a study."""


@dataclass(frozen=True)
class Wanted:
    """The collections that the user asked for."""

    exams: tuple[str, ...] = ()
    beir: tuple[Path, ...] = ()
    split: str = "test"
    questions: int | None = None
    """How many questions of each collection to ask; None means all."""
    seed: int = 42
    access: Access = field(default_factory=Access.public)
    model: str = ""
    """The language model; "" is the one of surefind.toml."""
    offline: bool = False
    """Whether no language model may be asked."""
    writes: WritesExam | None = None
    """Writes the questions if there are neither exams nor folders; None for known-item questions."""


def open_collections(
    home: Path,
    wanted: Wanted,
    report: OnProgress | None = None,
    tell: Callable[[str], None] | None = None,
    agree: Callable[[KnowledgeBase, Sequence[Calls]], None] = agreed,
) -> list[Collection]:
    """Opens what the user asked for: the exams of the knowledge base in `home`, then the BEIR folders. Without either,
    the questions that the study writes, or known-item questions. All share one budget."""
    if wanted.questions is not None and wanted.questions < 1:
        raise UsageError(f"--questions must be at least 1, not {wanted.questions}.")
    base = KnowledgeBase.open(home)
    if wanted.model:
        base.services.llm.settings = replace(base.services.llm.settings, model=wanted.model)
    store = ExamStore(base.data / "exams")
    exams = [store.load(name) for name in wanted.exams]
    if not exams and not wanted.beir:
        asks = not wanted.offline and bool(base.services.llm.settings.model)
        request = ExamRequest(base, wanted.access, asks, agree, report, tell)
        made = wanted.writes(request) if wanted.writes else None
        exams = [made or known_item_exam(base, access=wanted.access, tell=tell)]
    collections = [_collection(exam.name, base, exam, wanted, ("--exam", _versioned(exam))) for exam in exams]
    for folder in wanted.beir:
        kb, exam = beir_base(home, folder, wanted.split, report)
        kb.services.llm.settings, kb.services.llm.meter = base.services.llm.settings, base.services.llm.meter
        collections.append(_collection(folder.resolve().name, kb, exam, wanted, ("--beir", str(folder))))
    return _named_apart(collections)


def flags_of(wanted: Wanted, options: Options, offline: bool = False) -> tuple[str, ...]:
    """The options of the command line that the command of a table repeats, besides those of its collection."""
    flags: list[str] = []
    flags += ["--split", wanted.split] if wanted.beir and wanted.split != "test" else []
    flags += ["--questions", str(wanted.questions), "--seed", str(wanted.seed)] if wanted.questions is not None else []
    flags += ["--layout", options.layout] if options.layout else []
    flags += [part for encoder in options.encoders for part in ("--encoder", encoder)]
    flags += ["--llm", wanted.model] if wanted.model else ["--offline"] if offline else []
    flags += ["--cheaper-llm", options.cheaper_llm] if options.cheaper_llm else []
    flags += ["--limits", options.limits] if options.limits != "paper" else []
    flags += ["--repeats", str(options.repeats)] if options.repeats > 1 else []
    flags += ["--winner", options.winner] if options.winner else []
    flags += [part for group in sorted(wanted.access.groups) for part in ("--as", group)]
    return tuple(flags)


def sampled(exam: Exam, questions: int | None, seed: int) -> Exam:
    """The exam with at most this many questions, drawn with the seed and kept in their order."""
    if questions is None or questions >= len(exam.queries):
        return exam
    drawn = sorted(random.Random(seed).sample(range(len(exam.queries)), questions))
    return replace(exam, queries=tuple(exam.queries[i] for i in drawn))


def _collection(name: str, kb: KnowledgeBase, exam: Exam, wanted: Wanted, flags: Sequence[str]) -> Collection:
    drawn = sampled(exam, wanted.questions, wanted.seed)
    asked = {query.id for query in drawn.queries}
    rest = replace(exam, queries=tuple(query for query in exam.queries if query.id not in asked))
    return Collection(name, kb, drawn, wanted.access, tuple(flags), rest)


def _versioned(exam: Exam) -> str:
    return f"{exam.name}@{exam.version}" if exam.version else exam.name


def _named_apart(collections: list[Collection]) -> list[Collection]:
    """Numbers collections of the same name, because the name is the heading of a column."""
    counts: dict[str, int] = {}
    made = []
    for collection in collections:
        counts[collection.name] = count = counts.get(collection.name, 0) + 1
        made.append(collection if count == 1 else replace(collection, name=f"{collection.name} ({count})"))
    return made
