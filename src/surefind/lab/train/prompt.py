"""`surefind train prompt`: improves a prompt with the tuning half of an exam.

For `llm_listwise` (the support-chatbot study, 4.7), over a sample of the tuning half:

    (1) retrieve the first `top` passages
    (2) if R@top >= 0.5 (there is something to move up), let the model rerank them with the current prompt
    (3) if then R@top - R@keep > 0.3, the reranking failed: a meta-prompt shows the failure to the model, which analyses
        it and writes a better system prompt, used for the questions that follow

The failure with the widest gap under the first prompt is the hardest example; `mode=one_shot` shows it in the prompt.
`surefind bench` measures the result on the held-out half.

`surefind train prompt --step llm_weights`: chooses examples for `llm_weights` from the tuning half of an exam.

The examples are the questions for which weights matter most, one for each best weighting, with their score
distributions. No language model is called.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefind import __version__
from surefind.base.disk.sealed import to_json
from surefind.base.errors import ExamError, SpecError, SurefindError, choices
from surefind.base.prompts.fence import Data
from surefind.base.prompts.values import Calls
from surefind.base.protocols import OnProgress
from surefind.base.types import Chunk, ExamName, Query, Rankings
from surefind.engine.fuse.learned import question_key
from surefind.engine.fuse.llm_weights import distributions, labels
from surefind.engine.llm.ask import ask, read_object
from surefind.engine.llm.listwise import ListPrompt, describe, order_of
from surefind.engine.llm.trained import RankedExample, TrainedPrompt, Weighed, save_prompt
from surefind.engine.rerank.llm_listwise import LLMListwise
from surefind.engine.search.pipeline import Pipeline, Reading
from surefind.engine.store.lock import training_lock
from surefind.kb import KnowledgeBase
from surefind.lab.bench.engine import OWNER, places_of
from surefind.lab.exam.model import Exam, ExamQuery, held_out, relocate
from surefind.lab.measure.ranks import MEASURES, Judge, Measure
from surefind.lab.train.material import best_static, gather, simplex
from surefind.lab.train.report import (
    ExamplesReport,
    ListwiseReport,
    PromptFailure,
    SampledQuestions,
    TuningQuestions,
    WeighedQuestion,
)

STEPS = ("llm_listwise", "llm_weights")
MIN_RECALL, FAILED = 0.5, 0.3
"""The study's thresholds: the least recall worth reranking, and the loss of recall that counts as a failure."""
SAMPLE = 100
"""Questions of the tuning half that are used."""
ROUNDS = 8
"""Most failures that are shown to the model."""
_WAVE = 16
"""Questions reranked at a time. After a failure, the questions behind it are reranked again with the better prompt."""
_WORDS = 250
"""Words that the model is asked to write for a system prompt."""
_MAX_TOKENS = 1500
"""Most tokens of the answer to the meta-prompt."""
_META_SLOTS = ("prompt", "query", "passages", "relevant", "returned", "words")
_SCHEMA = {
    "type": "object",
    "properties": {"failure_analysis": {"type": "string"}, "system_prompt": {"type": "string"}},
    "required": ["failure_analysis", "system_prompt"],
}


@dataclass(frozen=True)
class RankingFailure:
    row: int
    gap: float
    returned: tuple[int, ...]
    """The ids in the order that the model gave."""


def check_name(name: str, step: str) -> None:
    if step not in STEPS:
        raise SpecError(f"Prompts are trained for {' and '.join(STEPS)}, not for {step!r}. {choices(step, STEPS)}")
    if not re.fullmatch(r"[A-Za-z_][\w-]*", name):
        raise SpecError(f"A prompt cannot be called {name!r}. Begin with a letter; use letters, digits, '-' and '_'.")


class ListwiseTrainer:
    """Makes the example and the system prompt of `llm_listwise`."""

    def __init__(
        self,
        kb: KnowledgeBase,
        exam: Exam,
        pipeline: Pipeline,
        stage: LLMListwise,
        sample: int = SAMPLE,
        rounds: int = ROUNDS,
        report: OnProgress | None = None,
        whole: bool = False,
    ) -> None:
        """With `whole`, all questions are used and not only the tuning half: for an exam that nothing is tested on."""
        self.kb = kb
        self.exam = exam
        self.pipeline = pipeline
        self.stage = stage
        self.rounds = rounds
        self._progress: OnProgress = report or (lambda what, done, total: None)
        kb.build_for(pipeline.retrieve, report=report)
        reader = kb.reader()
        self._view = reader.view
        documents = {document.id: document.text for document in reader.documents(OWNER)}
        there, _ = relocate(exam, documents)
        pairs = zip(there.queries, held_out(there.queries), strict=True)
        tuning = [query for query, out in pairs if whole or not out]
        self.queries: tuple[ExamQuery, ...] = tuple(tuning[:: max(1, len(tuning) // sample)][:sample])
        if not self.queries:
            raise ExamError(
                f"The exam {exam.label} has no tuning question about the current documents. Write an exam with: "
                "surefind exam generate."
            )
        self._judge = Judge(self.queries, places_of(self._view.spans(), documents))

    def calls(self) -> Calls:
        """The most calls: every question with the first prompt, every question while the prompt is improved, a wave
        again after each failure, and a longer call for each failure."""
        chunk = min(self.stage.passage_tokens, 400) * self.stage.top
        rounds = min(self.rounds, len(self.queries))  # each question fails once at most
        again = 2 * len(self.queries) + rounds * min(_WAVE, len(self.queries))
        out = again * 8 * self.stage.keep + rounds * _MAX_TOKENS
        return Calls(self.stage.model or "", again + rounds, int((again + rounds) * 1.3 * chunk), out)

    def train(self, name: str) -> ListwiseReport:
        check_name(name, "llm_listwise")
        with training_lock(self.kb.data, name):
            return self._train(name)

    def _train(self, name: str) -> ListwiseReport:
        rankings = self._retrieve()
        before = self._recall(rankings, self.stage.top)
        rows = np.flatnonzero(before >= MIN_RECALL).tolist()
        failures = []
        for at in range(0, len(rows), _WAVE):
            self._progress("Reranking", at, len(rows))
            failures += self._failures(rows[at : at + _WAVE], rankings, before, "")
        hardest = max(failures, key=lambda failure: failure.gap, default=None)
        system, log = self._improve(rows, rankings, before) if failures else ("", [])
        self._progress("Reranking", len(rows), len(rows))
        example = self._example(hardest, rankings) if hardest else None
        learnt = tuple(question_key(query.text) for query in self.queries)
        made = TrainedPrompt(name, "llm_listwise", learnt, system, example)
        spec = str(self.stage.replace(mode="meta" if system else "one_shot", trained=name))
        report = ListwiseReport(
            name=name,
            step="llm_listwise",
            exam=ExamName(self.exam.label, self.exam.fingerprint),
            surefind=__version__,
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            corpus=self._view.fingerprint,
            pipeline=str(self.pipeline),
            questions=SampledQuestions(len(self.queries), len(rows)),
            failures=tuple(log),
            hardest=self.queries[hardest.row].text if hardest else "",
            system_prompt=system,
            use=spec if hardest else "",
        )
        if hardest:
            save_prompt(self.kb.data / "models", made, to_json(report))
        return report

    def _improve(self, rows: Sequence[int], rankings: Rankings, before: Any) -> tuple[str, list[PromptFailure]]:
        """The meta-prompting loop: each failure under the current prompt may change the prompt for later questions."""
        system, place = "", 0
        log: list[PromptFailure] = []
        while place < len(rows) and len(log) < self.rounds:
            wave = rows[place : place + _WAVE]
            self._progress("Improving the prompt", place, len(rows))
            failures = self._failures(wave, rankings, before, system)
            if not failures:
                place += len(wave)
                continue
            first = failures[0]
            log.append(self._improved(first, rankings, system))
            system = log[-1].system_prompt or system
            place = rows.index(first.row) + 1
        return system, log

    def _retrieve(self) -> Rankings:
        queries = [Query(query.text, query.id) for query in self.queries]
        rankings = self.pipeline.found(queries, self.pipeline.depth, Reading(self._view, self.kb.services, OWNER))
        return Rankings(rankings.ids[:, : self.stage.top], rankings.scores[:, : self.stage.top], rankings.source)

    def _chunks(self, head: Sequence[int]) -> list[Chunk]:
        return self._view.chunks(head, OWNER)

    def _recall(self, rankings: Rankings, k: int) -> Any:
        return MEASURES["R"](self._judge.gains(rankings, "document"), k)

    def _failures(self, rows: Sequence[int], rankings: Rankings, before: Any, system: str) -> list[RankingFailure]:
        """The rows for which the model, with this system prompt, ranks too few relevant passages first."""
        prompt = self._prompt(system)
        heads = [rankings.row(row)[0].tolist() for row in rows]
        prompts = [
            prompt.messages(self.queries[row].text, self._chunks(head), self.stage.keep, self.stage.passage_tokens)
            for row, head in zip(rows, heads, strict=True)
        ]
        answers = ask(self.kb.services, self.stage.model, prompts, max_tokens=self.stage.max_tokens)
        self.kb.services.llm.meter.check()
        failures = []
        for row, head, answer in zip(rows, heads, answers, strict=True):
            order = order_of(answer, len(head), self.stage.keep)
            if isinstance(order, SurefindError):
                continue  # without an order there is nothing to learn from
            ids = np.full((len(self.queries), len(head)), -1, np.int64)
            ids[row] = [head[place] for place in order]
            after = self._recall(Rankings(ids, ids.astype(np.float32)), self.stage.keep)[row]
            if before[row] - after > FAILED:
                failures.append(RankingFailure(row, float(before[row] - after), tuple(ids[row].tolist())))
        return failures

    def _improved(self, failure: RankingFailure, rankings: Rankings, system: str) -> PromptFailure:
        """The model's analysis of a failure and its better system prompt; "" if it gave no usable one."""
        head = rankings.row(failure.row)[0].tolist()
        relevant = self._relevant(failure.row, head)
        template = self.kb.services.prompt("meta_prompt", "v1", _META_SLOTS)
        messages = template.messages(
            prompt=self._prompt(system).system,
            query=Data("query", self.queries[failure.row].text),
            passages=[
                Data("passage", describe(chunk, self.stage.passage_tokens), number)
                for number, chunk in enumerate(self._chunks(head), 1)
            ],
            relevant=", ".join(str(head.index(chunk_id) + 1) for chunk_id in relevant),
            returned=", ".join(str(head.index(chunk_id) + 1) for chunk_id in failure.returned[: self.stage.keep]),
            words=_WORDS,
        )
        (answer,) = ask(self.kb.services, self.stage.model, [messages], schema=_SCHEMA, max_tokens=_MAX_TOKENS)
        self.kb.services.llm.meter.check()
        answer_object = {} if isinstance(answer, SurefindError) else read_object(answer.text) or {}
        written = answer_object.get("system_prompt")
        usable = isinstance(written, str) and len(written) >= 20 and len(written.split()) <= 2 * _WORDS
        return PromptFailure(
            query=self.queries[failure.row].text,
            gap=round(failure.gap, 4),
            failure_analysis=str(answer_object.get("failure_analysis", ""))[:2000],
            system_prompt=str(written).strip() if usable else "",
        )

    def _example(self, failure: RankingFailure, rankings: Rankings) -> RankedExample:
        """An example with the right order: the relevant passages first, then the others in their old order."""
        head = rankings.row(failure.row)[0].tolist()
        relevant = self._relevant(failure.row, head)
        order = [*relevant, *(chunk_id for chunk_id in head if chunk_id not in relevant)]
        texts = tuple(describe(chunk, self.stage.passage_tokens) for chunk in self._chunks(head))
        ranking = tuple(head.index(chunk_id) + 1 for chunk_id in order[: self.stage.keep])
        return RankedExample(self.queries[failure.row].text, texts, ranking)

    def _relevant(self, row: int, head: Sequence[int]) -> list[int]:
        return [chunk_id for chunk_id in head if self._judge.relevant(row, chunk_id, "document")]

    def _prompt(self, system: str) -> ListPrompt:
        template = self.kb.services.prompt("llm_listwise", self.stage.prompt, ListPrompt.SLOTS)
        return ListPrompt.of(template, system)


EXAMPLES = 6
"""Most examples in a prompt."""


def weigh_examples(
    kb: KnowledgeBase,
    exam: Exam,
    retrieve: Sequence[str],
    name: str,
    measure: Measure,
    report: OnProgress | None = None,
) -> ExamplesReport:
    """Chooses and saves the examples; returns the report."""
    check_name(name, "llm_weights")
    with training_lock(kb.data, name):
        return _weighed(kb, exam, retrieve, name, measure, report)


def _weighed(
    kb: KnowledgeBase, exam: Exam, retrieve: Sequence[str], name: str, measure: Measure, report: OnProgress | None
) -> ExamplesReport:
    material = gather(kb, exam, retrieve, measure, report=report)
    half = material.tuning
    candidates = simplex(len(half.rankings))
    _, static = best_static(material)
    scores = half.sweep(candidates, "minmax")
    nearness = -np.abs(candidates - static).sum(axis=1)
    best = [int(np.lexsort((nearness, np.round(row, 6)))[-1]) for row in scores]  # ties: nearest to static
    spread = scores.max(axis=1) - scores.min(axis=1)
    chosen: dict[int, int] = {}
    for row in np.argsort(-spread, kind="stable").tolist():
        if spread[row] > 0:
            chosen.setdefault(best[row], row)
    names = labels(half.rankings)
    weighed = tuple(
        Weighed(
            half.queries[row].text,
            distributions(half.rankings, row),
            tuple(zip(names, candidates[at].tolist(), strict=True)),
        )
        for at, row in list(chosen.items())[:EXAMPLES]
    )
    made = ExamplesReport(
        name=name,
        step="llm_weights",
        exam=ExamName(exam.label, exam.fingerprint),
        surefind=__version__,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        corpus=material.view.fingerprint,
        pipeline=material.joined,
        questions=TuningQuestions(len(half.queries)),
        examples=tuple(WeighedQuestion(example.query, dict(example.weights)) for example in weighed),
        use=f"{material.joined} >> llm_weights(examples={name})" if weighed else "",
    )
    if weighed:
        learnt = tuple(question_key(query.text) for query in half.queries)
        save_prompt(kb.data / "models", TrainedPrompt(name, "llm_weights", learnt, weighed=weighed), to_json(made))
    return made
