"""`surefind train encoder | reranker`: trains a model for this knowledge base, and keeps it if it is clearly better.

The steps: collect pairs from the documents and the tuning half of an exam (`pairs`), find negatives with our own
retrievers (`negatives`), train (`learning`), export to int8 ONNX (`export`), run the old and the new pipeline on the
held-out half, and keep the new model if it is significantly better.
"""

from __future__ import annotations

import datetime
import hashlib
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from surefind import __version__
from surefind.base import spec
from surefind.base.disk.sealed import to_json
from surefind.base.errors import ExamError, MissingPartError, SpecError, SurefindError
from surefind.base.prompts.values import Calls
from surefind.base.protocols import OnProgress, Reranker
from surefind.base.types import ExamName
from surefind.engine.fuse.learned import question_key
from surefind.engine.inference.cross_encoder import OnnxCrossEncoder
from surefind.engine.retrieve.dense import Dense
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.store.lock import training_lock
from surefind.engine.write.layout import Layout
from surefind.kb import KnowledgeBase
from surefind.lab.bench.engine import OWNER, Bench, places_of
from surefind.lab.bench.plan import Contender, Plan
from surefind.lab.exam.model import Exam, clusters_of, held_out, relocate
from surefind.lab.measure.ranks import Measure
from surefind.lab.train.job import (
    MIN_PAIRS,
    SENTENCES,
    TrainingJob,
    need_torch,
    start_folder,
    trainable,
    trains_with_library,
)
from surefind.lab.train.kept import keep
from surefind.lab.train.material import MIN_QUESTIONS
from surefind.lab.train.pairs import Pair, PassageSet, filled, gather_pairs, mine
from surefind.lab.train.report import HalfCounts, JudgedRow, Losses, ModelReport, SearchedBy, compare, verdict

if TYPE_CHECKING:
    from surefind.lab.train.learning import TrainingSettings


def train_model(
    kb: KnowledgeBase,
    exam: Exam,
    job: TrainingJob,
    pipeline: Pipeline,
    measure: Measure,
    report: OnProgress | None = None,
    agree: Callable[[Calls], None] | None = None,
) -> ModelReport:
    """Trains a model, tests it on the held-out half, and keeps it if it is better. Returns the manifest, which is the
    report. If a language model writes questions, `agree` is called with the estimated calls first."""
    need_torch()
    if job.kind == "encoder" and not any(isinstance(r, Dense) for r in pipeline.retrieve):
        raise SpecError(f"The pipeline {pipeline} has no dense retriever, so a new encoder would have no effect.")
    progress: OnProgress = report or (lambda what, done, total: None)
    with training_lock(kb.data, job.name):
        return _train(exam, _Material(kb, exam, job, pipeline, progress, agree), job, measure, progress)


def fit_encoder(
    kb: KnowledgeBase, job: TrainingJob, pipeline: Pipeline, layout: Layout | None, report: OnProgress
) -> Path:
    """Trains an encoder on pairs from the passages of a layout, without an exam, and keeps it whether it is better or
    not: whoever asks for it measures it. Returns its folder."""
    need_torch()
    with training_lock(kb.data, job.name):
        material = _Material(kb, None, job, pipeline, report, None, layout)
        start = start_folder(job, pipeline, kb.services)
        work, place = kb.data / "models" / f".{job.name}.training", kb.data / "models" / job.name
        losses = _learn(material, job, start, work, report)
        about = {"name": job.name, "model": job.kind, "surefind": __version__, "corpus": material.view.fingerprint}
        pairs = dict(Counter(pair.source for pair in material.pairs))
        keep(work / "model", place, {**about, "pairs": pairs, "start": start.name, "steps": len(losses), "learnt": []})
        shutil.rmtree(work, ignore_errors=True)
    return place


def _train(exam: Exam, material: _Material, job: TrainingJob, measure: Measure, progress: OnProgress) -> ModelReport:
    start = start_folder(job, material.pipeline, material.kb.services)
    started = time.perf_counter()
    work = material.kb.data / "models" / f".{job.name}.training"
    losses = _learn(material, job, start, work, progress)
    seconds = time.perf_counter() - started
    rows, sentence, use = _judge(material, job, start, work / "model", measure, progress)
    made = ModelReport(
        name=job.name,
        model=job.kind,
        surefind=__version__,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        corpus=material.view.fingerprint,
        retrievers=tuple(SearchedBy(str(retriever)) for retriever in material.pipeline.retrieve),
        exam=ExamName(exam.label, exam.fingerprint),
        questions=HalfCounts(len(material.tuning), len(material.held)),
        pairs=dict(Counter(pair.source for pair in material.pairs)),
        start=start.name,
        hyperparameters={key: value for key, value in asdict(job).items() if key not in ("kind", "name", "start")},
        loss=Losses(_mean(losses[:10]), _mean(losses[-10:]), len(losses)),
        training_seconds=round(seconds, 1),
        measure=str(measure),
        rows=tuple(row.rounded for row in rows),
        verdict=sentence,
        use=use,
        better=use == rows[0].spec,
    )
    learnt = [question_key(query.text) for query in material.tuning]
    place = material.kb.data / "models" / job.name
    if made.better:
        keep(work / "model", place, {**to_json(made), "learnt": learnt})
    shutil.rmtree(work, ignore_errors=True)
    return made


class _Material:
    """The corpus, the two halves of the exam, and the pairs to learn from."""

    def __init__(
        self,
        kb: KnowledgeBase,
        exam: Exam | None,
        job: TrainingJob,
        pipeline: Pipeline,
        progress: OnProgress,
        agree: Callable[[Calls], None] | None,
        layout: Layout | None = None,
    ) -> None:
        """Without an exam, no passage is held out."""
        self.kb, self.pipeline = kb, pipeline
        kb.build_for(pipeline.retrieve, layout, progress)
        reader = kb.reader(layout)
        self.view = reader.view
        documents = {document.id: document for document in reader.documents(OWNER)}
        texts = {document_id: document.text for document_id, document in documents.items()}
        self.exam, _ = relocate(exam or Exam("none", ()), texts)
        if exam is not None and len(self.exam.queries) < MIN_QUESTIONS:
            raise ExamError(
                f"The exam {exam.label} has {len(self.exam.queries)} questions about the current documents; training "
                f"needs at least {MIN_QUESTIONS}. Write more with: surefind exam generate."
            )
        out = held_out(self.exam.queries)
        self.tuning = tuple(q for q, held in zip(self.exam.queries, out, strict=True) if not held)
        self.held = tuple(q for q, held in zip(self.exam.queries, out, strict=True) if held)
        spans = self.view.spans()
        self.chunks = self.view.chunks(spans.ids.tolist(), OWNER)
        places = replace(places_of(spans, texts), at=np.asarray)  # pairs refer to chunks by place
        shelf = PassageSet(self.chunks, self.held, places)
        pairs = gather_pairs(job.sources, shelf, self.tuning, places, documents)
        if "llm" in job.sources:
            pairs += self._written(shelf, job, progress, agree)
        self.pairs = _most(pairs, job.most)
        if len(self.pairs) < MIN_PAIRS:
            raise ExamError(
                f"There are {len(self.pairs)} pairs to learn from ({', '.join(job.sources)}), without the passages "
                f"that answer held-out questions; at least {MIN_PAIRS} are needed. Use more sources or documents, "
                "or an exam whose questions are about fewer of the documents."
            )

    def _written(
        self, shelf: PassageSet, job: TrainingJob, progress: OnProgress, agree: Callable[[Calls], None] | None
    ) -> list[Pair]:
        from surefind.lab.train.pairs import Form, calls_for, from_llm, passages_to_ask

        form = cast(Form, job.write)
        ordinals = passages_to_ask(shelf, job.most, form)
        if agree:
            agree(calls_for(shelf, ordinals, job.llm))
        return from_llm(shelf, ordinals, self.kb.services, job.llm, form, progress)


def _most(pairs: Sequence[Pair], most: int) -> list[Pair]:
    """The first `most` pairs: those of the exam first, then others at random, the same each time."""
    lots = [hashlib.blake2b(f"{p.query}\0{p.document}".encode(), digest_size=8).digest() for p in pairs]
    order = sorted(range(len(pairs)), key=lambda i: (pairs[i].source != "exam", lots[i]))[:most]
    return [pairs[i] for i in sorted(order)]


# ---------------------------------------------------------------- learning


def _learn(material: _Material, job: TrainingJob, start: Path, work: Path, progress: OnProgress) -> list[float]:
    import torch

    from surefind.lab.train.learning import TrainingSettings, texts_of, train_sentences
    from surefind.lab.train.pairs import margins_of

    retrievers = material.pipeline.retrieve
    mined = mine(material.view, material.chunks, material.pairs, retrievers, job.negatives, progress)
    negatives = filled(mined, material.pairs, material.chunks, job.negatives)
    device = job.device or ("cuda" if torch.cuda.is_available() else "cpu")
    settings = TrainingSettings(
        job.loss, job.epochs, job.batch, job.rate, job.negatives, job.max_tokens, device=device, warmup=job.warmup
    )
    margins: list[tuple[float, ...]] = []
    if job.kind == "encoder" and job.loss == "margin-mse":
        margins = margins_of(material.pairs, negatives, material.chunks, progress)
    if job.kind == "encoder" and trains_with_library(start):
        texts = texts_of(material.pairs, negatives, material.chunks)
        return train_sentences(start, texts, settings, job.share, work, progress, margins)
    return _learn_network(material, negatives, job, settings, start, work, progress, margins)


def _learn_network(
    material: _Material,
    negatives: Sequence[Sequence[int]],
    job: TrainingJob,
    settings: TrainingSettings,
    start: Path,
    work: Path,
    progress: OnProgress,
    margins: Sequence[tuple[float, ...]],
) -> list[float]:
    """Trains a BERT model with our own network, and exports it to int8 ONNX."""
    from surefind.lab.train.export import export
    from surefind.lab.train.learning import examples_of, train
    from surefind.lab.train.network import load_network

    examples = examples_of(material.pairs, negatives, material.chunks, job, start, margins)
    network, missing = load_network(start, job.kind == "reranker")
    before = {key: value.clone() for key, value in network.state_dict().items()}
    losses = train(network, examples, settings, work / "checkpoint.pt", progress)
    if not missing:  # the initial weights of a random head are not worth keeping
        trained = network.cpu().state_dict()
        network.load_state_dict({k: (1 - job.share) * before[k] + job.share * trained[k] for k in trained})
    progress("Exporting", 0, 1)
    knows = job.kind == "reranker" and not missing and (start / "model.onnx").is_file()
    spread = OnnxCrossEncoder(start).spread if knows else 0.0
    export(network, start / "tokenizer.json", work / "model", job.name, job.max_tokens, spread)
    progress("Exporting", 1, 1)
    return losses


# ---------------------------------------------------------------- the held-out half


def with_encoder(pipeline: Pipeline, folder: Path, instead: str, sentences: bool = False) -> Pipeline:
    """The pipeline with another encoder in the place of one; of the first, if it does not have that one. `sentences`:
    the folder is in the format of sentence-transformers, and not in ours."""
    stage, field = ("sentence_transformers", "model") if sentences else ("onnx", "path")
    other = str(spec.make("embed", spec.format_spec(stage, [(field, str(folder))])))
    models = [r.model for r in pipeline.retrieve if isinstance(r, Dense)]
    instead = instead if instead in models or not models else models[0]
    retrieve = tuple(
        r.replace(model=other) if isinstance(r, Dense) and r.model == instead else r for r in pipeline.retrieve
    )
    return replace(pipeline, retrieve=retrieve)


def with_reranker(pipeline: Pipeline, model: str, blend: float) -> Pipeline:
    text = spec.format_spec("cross_encoder", [("model", model), ("blend", blend)])
    return replace(pipeline, rerank=(cast(Reranker, spec.make("rerank", text)),))


def _judge(
    material: _Material, job: TrainingJob, start: Path, model: Path, measure: Measure, progress: OnProgress
) -> tuple[list[JudgedRow], str, str]:
    """The rows of the table, the verdict and the pipeline to use."""
    plain = material.pipeline
    final = material.kb.data / "models" / job.name
    rivals = {f"{plain.name or 'the pipeline'} as it is": plain}
    if job.kind == "encoder":
        sentences = (model / SENTENCES).is_file()
        models = [retriever.model for retriever in plain.retrieve if isinstance(retriever, Dense)]
        instead = next((model for model in models if trainable(model, material.kb.services) == start), "")
        trial, chosen = (with_encoder(plain, folder, instead, sentences) for folder in (model, final))
    else:
        trial = with_reranker(plain, str(model), job.blend)
        chosen = with_reranker(plain, job.name, job.blend)
        bundled = with_reranker(plain, "small", job.blend)
        if _available(bundled, material.kb):
            rivals["the bundled reranker"] = bundled
    exam = replace(material.exam, name=f"{material.exam.name}-held-out", queries=material.held)
    contenders = [Contender(name, pipeline) for name, pipeline in {f"trained {job.kind}": trial, **rivals}.items()]
    outcome = Bench(material.kb, report=progress).score(Plan(tuple(contenders), exam, (measure,)))
    scores = outcome.scores[str(measure)]
    if any(step.fell_back for steps in outcome.steps for step in steps):
        raise SurefindError("The trained model could not be tested: it failed on some questions. Train it again.")
    others = {(name, str(pipeline)): scores[:, i] for i, (name, pipeline) in enumerate(rivals.items(), 1)}
    rows = compare(
        (f"trained {job.kind}", str(chosen), scores[:, 0]), others, {}, clusters_of(outcome.plan.exam.queries)
    )
    best = max(range(1, len(rows)), key=lambda i: rows[i].mean)
    sentence, use = verdict(rows, best, str(measure))
    return rows, sentence, use


def _available(pipeline: Pipeline, kb: KnowledgeBase) -> bool:
    try:
        return all(cast(Any, stage).stamp(kb.services) for stage in pipeline.rerank)
    except MissingPartError:
        return False


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None
