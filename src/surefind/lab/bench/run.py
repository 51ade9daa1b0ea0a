"""Runs a whole benchmark: takes a plan and returns the report, using cached results for everything unchanged."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from surefind import __version__
from surefind.base import spec
from surefind.base.abilities import declared
from surefind.base.access import Access
from surefind.base.disk.sealed import private_folder, to_json
from surefind.base.errors import ExamError
from surefind.base.protocols import OnProgress, Services
from surefind.base.redact import redacted
from surefind.base.types import Document
from surefind.engine.embed.onnx import Onnx
from surefind.engine.embed.sentence_transformers import SentenceTransformers
from surefind.engine.fuse.learned import Learned, question_key
from surefind.engine.inference.folder import questions_trained_on
from surefind.engine.retrieve.dense import Dense
from surefind.engine.search.reader import Searcher
from surefind.kb import KnowledgeBase
from surefind.kb.completing import choose_default
from surefind.kb.settings.config import DATA_FOLDER, FILE_NAME
from surefind.lab.bench.building import build_report
from surefind.lab.bench.cost import plan_needs
from surefind.lab.bench.engine import OWNER, Bench, Outcome
from surefind.lab.bench.plan import Contender, Plan
from surefind.lab.bench.recommendation import default_row
from surefind.lab.bench.report import FORMAT, BenchReport, ModelCheck, TrainedFusion
from surefind.lab.exam.formats.collections import read_beir
from surefind.lab.exam.formats.library import Library
from surefind.lab.exam.known_item import GENERATOR, PER_FAMILY, generate, origin_of
from surefind.lab.exam.model import Exam
from surefind.lab.exam.store import ExamStore
from surefind.lab.fitness.check import checked, sentence

_BEIR_SETTINGS = """\
[index]
chunk = "whole"
enrich = ["headings"]
"""


@dataclass(frozen=True)
class Finished:
    report: BenchReport
    outcome: Outcome | None
    """None when the report came from the cache."""


def run_bench(
    kb: KnowledgeBase,
    plan: Plan,
    command: str,
    fresh: bool = False,
    report: OnProgress | None = None,
    ask_again: bool = False,
    ray: str = "",
) -> Finished:
    """Runs a plan and returns the report.

    Cached answers of language models are reused, so a repeated benchmark is free and gives the same report;
    `ask_again` calls the models anew. `ray` is the address of a Ray cluster that ranks.
    """
    with contextlib.nullcontext() if ask_again else kb.services.llm.replaying():
        return _run(kb, plan, command, fresh, report, ray)


def _run(kb: KnowledgeBase, plan: Plan, command: str, fresh: bool, report: OnProgress | None, ray: str) -> Finished:
    plan = unseen(plan, kb.services)
    bench = Bench(kb, report=report, fresh=fresh, ahead=_spread(ray) if ray else None)
    bench.build(plan)
    specs = [
        f"{(contender.name, *contender.aliases)}={contender}{_stamp(contender, kb.services)}"
        for contender in plan.contenders
    ]
    default = default_row(plan.contenders, kb.settings)
    key = bench.cache.key(
        "report",
        FORMAT,
        __version__,
        repr(default),
        bench.fingerprint(plan),
        plan.exam.fingerprint,
        plan.exam.label,
        *plan.measures,
        *specs,
        *(f"without {one}" for one in plan.left_out),
        *bench.audience(plan, plan.contenders[0]),
    )
    known = None if fresh else bench.cache.record(BenchReport, key)
    if known is not None:
        groups = tuple(sorted(plan.access.groups))
        return Finished(replace(known, command=command, audience=str(plan.access), groups=groups), None)
    outcome = bench.run(plan)
    documents = bench.reader(plan.contenders[0]).documents(OWNER)
    texts = {document.id: document.text for document in documents}
    titles = {document.id: document.title for document in documents}
    learned = [_learned(contender.name, fuser, kb.services) for contender, fuser in _trained(plan)]
    asked = any(contender.asks_llm for contender in plan.contenders)
    checks = checked(kb, plan_needs(kb, plan)) if asked else []
    models = [
        ModelCheck(redacted(kb.services.chat_name(need.model)), need.step, verdict.verdict, verdict.figure)
        for need, verdict in checks
    ]
    advice = sentence(checks, kb.services.chat_name) if checks else ""
    made = build_report(outcome, texts, titles, command, default, learned, models, advice)
    if not made.problems:  # after a failure, the next run tries again
        bench.cache.put_data(key, to_json(made))
    return Finished(made, outcome)


def _spread(address: str) -> Callable[[Bench, Plan], None]:
    from surefind.lab.bench.spread import spread

    return spread(address)


def unseen(plan: Plan, services: Services) -> Plan:
    """The plan without the questions that any contender was trained on.

    On the exam of the training, the held-out half is left; on another exam, all questions that the two do not share.
    """
    trained_on = {contender.name: _training_questions(contender, services) for contender in plan.contenders}
    every = frozenset[str]().union(*trained_on.values())
    kept = tuple(query for query in plan.exam.queries if not every or question_key(query.text) not in every)
    if len(kept) == len(plan.exam.queries):
        return plan
    if not kept:
        names = ", ".join(name for name, questions in trained_on.items() if questions)
        raise ExamError(
            f"Every question of {plan.exam.label} was used to train {names}, so none is left to measure with. "
            "Choose another exam with --exam, or leave the trained model out."
        )
    return replace(plan, exam=replace(plan.exam, name=f"{plan.exam.name}-held-out", queries=kept))


def _trained(plan: Plan) -> list[tuple[Contender, Learned]]:
    """The contenders whose fusion was trained, with that fusion."""
    fusers = ((contender, contender.pipeline.fuse) for contender in plan.contenders)
    return [(contender, fuser) for contender, fuser in fusers if isinstance(fuser, Learned)]


def _learned(name: str, fuser: Learned, services: Services) -> TrainedFusion:
    """What training recorded about a trained fusion: feature importance, and how close its α are to α*."""
    about, training = fuser.about(services)
    metrics = about.metrics
    return TrainedFusion(
        name=name,
        model=about.model,
        exam=about.exam.name,
        r2=metrics.get("r2_held_out"),
        alphas=training.alphas,
        importance=metrics.get("shap") or {k: abs(v) for k, v in metrics.get("coefficients", {}).items()},
        contributions="mean |SHAP|" if metrics.get("shap") else "|coefficient|",
    )


def _training_questions(contender: Contender, services: Services) -> frozenset[str]:
    """The questions that the fuser, rerankers and encoders of a pipeline were trained on."""
    stages = (contender.pipeline.fuse, *contender.pipeline.rerank)
    trained_on = [declared(stage).training_questions(services) for stage in stages]
    for retriever in contender.pipeline.retrieve:
        encoder = spec.make("embed", retriever.model) if isinstance(retriever, Dense) else None
        if isinstance(encoder, Onnx | SentenceTransformers):
            trained_on.append(
                questions_trained_on(services.located(encoder.path if isinstance(encoder, Onnx) else encoder.model))
            )
    return frozenset[str]().union(*trained_on)


def _stamp(contender: Contender, services: Services) -> str:
    """Fingerprints of what the pipeline's spec only names: weights of models and texts of prompts."""
    return "".join(f" {declared(stage).stamp(services)}" for stage in contender.pipeline.stages)


def known_item_exam(
    kb: KnowledgeBase,
    per_family: int = PER_FAMILY,
    seed: int = 42,
    access: Access = OWNER,
    tell: Callable[[str], None] | None = None,
) -> Exam:
    """The known-item exam of the current documents that `access` admits, as `saved_exam` keeps it."""
    origin = origin_of(per_family, seed=seed)

    def write(documents: list[Document]) -> Exam:
        return generate(documents, per_family=per_family, seed=seed)

    return saved_exam(kb, "known-item", origin, write, access, tell)


def saved_exam(
    kb: KnowledgeBase,
    name: str,
    origin: str,
    write: Callable[[list[Document]], Exam],
    access: Access = OWNER,
    tell: Callable[[str], None] | None = None,
) -> Exam:
    """The exam of this name about the current documents that `access` admits: loaded, or written and saved if the
    documents, the options (`origin`) or the rules that write questions have changed. `tell` learns why there is a new
    version."""
    store = ExamStore(kb.data / "exams")
    reader = kb.reader()
    origin += audience_of(reader, access)
    wanted = Exam(name, (), 0, origin, reader.fingerprint, GENERATOR)
    newest = store.load(wanted.name) if wanted.name in store.names() else None
    reason = _outdated(newest, wanted) if newest else ""
    if newest and not reason:
        return newest
    made = write(reader.documents(access))
    saved = store.save(replace(made, origin=origin, corpus=reader.fingerprint))
    if tell and newest and saved.version != newest.version:
        tell(f"Wrote {saved.label}: {reason}.")
    return saved


def _outdated(newest: Exam, wanted: Exam) -> str:
    """Why the newest exam is not the one that is wanted; "" if it is."""
    if newest.origin != wanted.origin:
        return f"{newest.label} was written with other options ({newest.origin})"
    changed = []
    if newest.corpus != wanted.corpus:
        changed.append("the documents")
    if newest.generator != wanted.generator:
        changed.append("the rules by which questions are written")
    return f"since {newest.label} was written, {' and '.join(changed)} have changed" if changed else ""


def audience_of(reader: Searcher, access: Access) -> str:
    """The end of an exam's origin: which documents the questions were written from, if not from all."""
    withheld = reader.view.withheld(access)
    groups = "".join(f" --as {group}" for group in sorted(access.groups))
    return f"{groups}, without {withheld} restricted documents" if withheld else ""


def beir_base(
    kb_folder: Path, folder: Path, split: str, report: OnProgress | None = None
) -> tuple[KnowledgeBase, Exam]:
    """Opens a BEIR folder as a knowledge base and an exam. Its documents are not cut; its data goes into a subfolder of
    the current knowledge base's data."""
    folder = folder.resolve()
    if not folder.is_dir():
        raise ExamError(f"There is no folder {folder}.")
    if not (folder / "corpus.jsonl").exists():
        raise ExamError(f"{folder} is not a BEIR folder: it has no corpus.jsonl.")
    place = hashlib.blake2b(str(folder).encode(), digest_size=4).hexdigest()  # two folders may have the same name
    home = kb_folder.resolve() / DATA_FOLDER / "beir" / f"{folder.name}-{place}"
    private_folder(home)
    (home / FILE_NAME).write_text(_BEIR_SETTINGS, encoding="utf-8")
    kb = KnowledgeBase.open(home)
    problems = kb.sync(folder / "corpus.jsonl", report=report, index=False).problems
    if problems and not kb.documents(OWNER):
        raise ExamError(f"{folder / problems[0].path} {problems[0].reason}.")
    choose_default(kb, lambda text: None)
    try:
        return kb, read_beir(folder, Library(kb.documents(OWNER)), split)
    except ExamError as error:
        if not problems:
            raise
        first = f"{problems[0].path} {problems[0].reason}"
        raise ExamError(f"{error}\n{len(problems)} problems of its documents, the first: {first}.") from None
