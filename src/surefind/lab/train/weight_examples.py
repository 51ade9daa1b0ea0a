"""`surefind train prompt --step llm_weights`: chooses examples for `llm_weights` from the tuning half of an exam.

The examples are the questions for which weights matter most, one for each best weighting, with their score
distributions. No language model is called.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import numpy as np

from surefind import __version__
from surefind.base.disk.records import to_json
from surefind.base.protocols import OnProgress
from surefind.base.types import ExamName
from surefind.engine.fuse.learned import question_key
from surefind.engine.fuse.support.weighing import distributions, labels
from surefind.engine.llm.trained import TrainedPrompt, Weighed, save_prompt
from surefind.engine.store.lock import training_lock
from surefind.kb import KnowledgeBase
from surefind.lab.exam.model import Exam
from surefind.lab.measure.names import Measure
from surefind.lab.train.material import best_static, gather, simplex
from surefind.lab.train.prompt import check_name
from surefind.lab.train.report import ExamplesReport, TuningQuestions, WeighedQuestion

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
