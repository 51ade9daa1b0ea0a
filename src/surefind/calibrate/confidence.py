"""`surefind calibrate confidence`: fits how sure a search is on an exam, checks it on held-out questions and saves it.

One half of the questions fits the predictor that is checked; what is saved is fitted on all of them. The fit starts
from the built-in weights, so that an exam of a few dozen questions is enough. Questions of a kind that the exam does
not have (nonsense, another subject) are judged as the built-in predictor judges them.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from surefind import __version__
from surefind.bench.plan import Contender, Plan
from surefind.calibrate.answers import Answers, ask, ask_twice
from surefind.confidence.answering import write_answering
from surefind.confidence.builtin import builtin
from surefind.confidence.predictor import fit
from surefind.errors import ExamError
from surefind.exam.model import Exam
from surefind.exam.split import held_out
from surefind.kb import KnowledgeBase
from surefind.measure.names import Measure
from surefind.measure.reliability import auc, brier, calibration_error, error_by_chance, reliability
from surefind.measure.thresholds import LEAST
from surefind.protocols import OnProgress
from surefind.search.pipeline import Pipeline
from surefind.types import BoolArray, Floats, Query


def plan_of(pipeline: Pipeline, exam: Exam, success: Measure) -> Plan:
    return Plan((Contender(str(pipeline), pipeline),), exam, (success,))


def calibrate_confidence(
    kb: KnowledgeBase, plan: Plan, unanswerable: Sequence[str] = (), report: OnProgress | None = None
) -> dict[str, Any]:
    """Saves the calibration and returns it with its report. `unanswerable` are questions that no document answers."""
    folder = kb.services.models_folder
    assert folder is not None  # a knowledge base has one
    pipeline = plan.contenders[0].pipeline
    answers = ask_twice(kb, plan, report)
    out = _held_out(plan, answers, len(unanswerable))
    signals, success = answers.signals, answers.success
    if unanswerable:
        queries = [Query(text, str(number)) for number, text in enumerate(unanswerable)]
        signals = np.concatenate([signals, ask(kb, pipeline, queries, answers.view, report)[1]])
        success = np.concatenate([success, np.zeros(len(queries), np.bool_)])
    indexes = [retriever.index_spec for retriever in pipeline.retrieve]
    encoder = next((one for r, one in zip(pipeline.retrieve, indexes, strict=True) if r.signal == "dense"), "")
    earlier = builtin().predictors[answers.kind]
    checked = fit(signals[~out], success[~out], earlier=earlier)(signals[out])
    questions = len(answers.queries)
    data: dict[str, Any] = {
        "surefind": __version__,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "pipeline": str(pipeline),
        "layout": answers.view.layout,
        "indexes": indexes,
        "corpus": answers.view.fingerprint,
        "documents": list(answers.view.sketch),
        "kind": answers.kind,
        "predictor": fit(signals, success, earlier=earlier).as_data(),
        "words": f"the exam {plan.exam.label}, {questions} questions",
        "exam": {"name": plan.exam.label, "fingerprint": plan.exam.fingerprint},
        "success": str(plan.measures[0]),
        "questions": {"exam": questions, "unanswerable": len(unanswerable), "dropped": answers.dropped},
        "right": float(success[:questions].mean()),
        "held_out": _checked(checked, success[out]),
        "builtin": _checked(builtin()(answers.kind, signals[out], encoder), success[out]),
    }
    data["file"] = str(write_answering(folder, data))
    return data


def _held_out(plan: Plan, answers: Answers, unanswerable: int) -> BoolArray:
    """Which searches are held out: those of half of the questions, with and without their answers, and every second one
    of the unanswerable ones."""
    half = np.array(held_out(answers.queries))
    if min(half.sum(), (~half).sum()) < LEAST:
        raise ExamError(
            f"The exam {plan.exam.label} has {len(answers.queries)} questions about the current documents; calibrating "
            f"needs at least {LEAST} in each half. Add questions, or write some: surefind exam write."
        )
    return np.concatenate([half, half, np.arange(unanswerable) % 2 == 1])


def _checked(p: Floats, success: BoolArray) -> dict[str, Any]:
    """How well probabilities hold on questions."""
    return {
        "searches": len(p),
        "error": calibration_error(p, success),
        "error_by_chance": error_by_chance(p),
        "brier": brier(p, success),
        "auc": auc(p, success),
        "mean": float(p.mean()),
        "observed": float(success.mean()),
        "bins": [asdict(one) for one in reliability(p, success)],
    }
