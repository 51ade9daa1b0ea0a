"""`surefind train weights`: finds static weights for any number of rankings, by coordinate search on the tuning half.

The search starts from equal weights. Each weight in turn is set to the value from 0 to 1 that scores best while the
others stay fixed. Rounds repeat until no weight improves, first in steps of 0.1, then of 0.02 around the result. Both
scalings of `weighted` are tried. For an equal score, the current weight is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from surefind.base.protocols import OnProgress
from surefind.base.types import ExamName, Floats
from surefind.engine.fuse.support.predictors import Norm
from surefind.engine.fuse.weighted import Weighted
from surefind.engine.search.pipeline import Pipeline
from surefind.kb import KnowledgeBase
from surefind.lab.bench.plan import short
from surefind.lab.exam.clusters import clusters_of
from surefind.lab.exam.model import Exam
from surefind.lab.measure.names import Measure
from surefind.lab.train.fusion import NDCG
from surefind.lab.train.judge import compare, refusal, verdict
from surefind.lab.train.material import NORMS, Half, Missing, gather, simplex
from surefind.lab.train.report import HalfCounts, WeightsReport

COARSE = np.round(np.arange(0, 1.01, 0.1), 2)
FINE = np.round(np.arange(-0.08, 0.081, 0.02), 2)
_ROUNDS = 10
"""Most rounds of the search per step size."""


def train_weights(
    kb: KnowledgeBase,
    exam: Exam,
    retrieve: Sequence[str],
    measure: Measure = NDCG,
    missing: Missing | Literal["auto"] = "auto",
    report: OnProgress | None = None,
) -> WeightsReport:
    missing = "score" if missing == "auto" else missing
    material = gather(kb, exam, retrieve, measure, missing, report)
    progress: OnProgress = report or (lambda what, done, total: None)
    tried = []
    for i, norm in enumerate(NORMS):
        progress("Searching weights", i, len(NORMS))
        weights, score = search(material.tuning, norm)
        tried.append((score, -i, norm, weights))
    progress("Searching weights", len(NORMS), len(NORMS))
    tuned, _, norm, weights = max(tried, key=lambda row: row[:2])

    held = material.held
    joined = material.joined
    equal = np.full(len(held.rankings), 1 / len(held.rankings))
    spec, plain = (str(Weighted(w, norm, missing)) for w in (tuple(map(float, weights)), None))
    others = {("equal weights", f"{joined} >> {plain}"): held.blended(equal, norm)}
    for retriever, ranking in zip(material.pipeline.retrieve, held.found, strict=True):
        others[short(Pipeline((retriever,))), str(retriever)] = held.score(ranking)
    rows = compare(
        ("tuned weights", f"{joined} >> {spec}", held.blended(weights, norm)), others, {}, clusters_of(held.queries)
    )
    rival = max(range(1, len(rows)), key=lambda i: rows[i].mean)
    sentence, use = refusal(rows, rival, str(measure), held.queries), ""
    if not sentence:
        sentence, use = verdict(rows, rival, str(measure))
    idle = (one for one, weight in zip(material.pipeline.retrieve, weights, strict=True) if not weight)
    return WeightsReport(
        weights=tuple(weights.tolist()),
        norm=norm,
        useless=tuple(short(Pipeline((one,))) for one in idle),
        spec=spec,
        exam=ExamName(exam.label, exam.fingerprint),
        questions=HalfCounts(len(material.tuning.queries), len(held.queries)),
        measure=str(measure),
        tuning_mean=round(tuned, 5),
        rows=tuple(row.rounded for row in rows),
        verdict=sentence,
        use=use,
    )


def search(half: Half, norm: Norm) -> tuple[Floats, float]:
    """The best weights, which sum to 1, and their mean measure on this half."""
    seen: dict[tuple[float, ...], float] = {}

    def score(weights: Floats) -> float:
        key = tuple(np.round(weights / weights.sum(), 6).tolist())
        if key not in seen:
            seen[key] = float(half.blended(np.array(key), norm).mean())
        return seen[key]

    # One weight at a time can stop beside the best mixture, so the search starts from the best point of a grid as well.
    weights = max([np.full(len(half.rankings), 0.5), *simplex(len(half.rankings))], key=score)
    for steps in (lambda now: COARSE, lambda now: np.clip(now + FINE, 0, 1)):
        for _ in range(_ROUNDS):
            before = score(weights)
            for i in range(len(weights)):
                tries = [weights, *(_with(weights, i, value) for value in steps(weights[i]))]
                weights = max((w for w in tries if w.sum() > 0), key=score)
            if score(weights) <= before:
                break
    share = np.round(weights / weights.sum(), 3)
    return share, float(half.blended(share, norm).mean())


def _with(weights: Floats, i: int, value: float) -> Floats:
    changed = weights.copy()
    changed[i] = value
    return changed
