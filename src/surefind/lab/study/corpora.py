"""Opens the collections of a study: exams of the knowledge base, or BEIR folders, each with a sample of questions."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from surefind.base.access import Access
from surefind.base.errors import UsageError
from surefind.base.prompts.values import Calls
from surefind.base.protocols import OnProgress
from surefind.kb import KnowledgeBase
from surefind.lab.bench.run import beir_base, known_item_exam
from surefind.lab.exam.model import Exam
from surefind.lab.exam.store import ExamStore
from surefind.lab.study.desk import Collection, Options


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
