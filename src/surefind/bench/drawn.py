"""Estimates a slow configuration from a drawn part of the questions.

A reranker that reads passages on this machine takes about half a second a question. In the default comparison such a
configuration is asked `SAMPLE_QUESTIONS` questions, drawn at random. The same pipeline without its rerankers is asked
all, and the estimate is its mean plus the mean difference on the drawn questions (difference estimator; Cochran 1977,
section 7.9). Statistics get one value for each question:

    value = before + d̄ + [drawn] · (N / n) · r        Σ r = 0,  Σ r² / n = s²

    before, after    the scores without and with the rerankers
    d̄, n, N          mean difference, drawn questions and all questions of the stratum
    r                after - before - d̄, scaled to the standard deviation s
    s²               variance of the differences, blended with the usual one (`USUAL`): six differences that are all 0
                     do not show that there is none

The mean of these values is the estimate. Their variance is that of the estimate times N, so that intervals and paired
tests hold as for a configuration that was asked everything; against the pipeline without rerankers they are those of
the differences on the n drawn questions. A stratum is a group of questions that counts on its own: each half of the
exam, and in it each group that the recommendation tells apart.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from surefind.bench.plan import Contender, Plan
from surefind.bench.recommendation import evidence_groups
from surefind.bench.reranking import Step
from surefind.exam.model import ExamQuery
from surefind.exam.split import held_out
from surefind.types import PAD, BoolArray, Floats, IdArray, Rankings

SAMPLE_QUESTIONS = 6
"""Questions to draw: with them, the default comparison takes about half as long again."""
_MIN_PER_STRATUM = 2
"""Questions of a stratum that are drawn at least."""
USUAL = 0.09
"""Standard deviation of what a reranker changes for a question: that of `careful` on ten collections (`prior.json`)."""
_USUAL_COUNTS = 8
"""How many questions the usual variance counts for."""


@dataclass(frozen=True)
class QuestionSample:
    """The drawn questions of an exam."""

    asked: BoolArray
    """Whether each question is drawn."""
    strata: tuple[IdArray, ...]
    """The places of the questions of each stratum."""

    @property
    def places(self) -> IdArray:
        return np.flatnonzero(self.asked)

    def __len__(self) -> int:
        return int(self.asked.sum())

    def of(self, rankings: Rankings) -> Rankings:
        """Returns the rankings of the drawn questions."""
        return replace(rankings, ids=rankings.ids[self.asked], scores=rankings.scores[self.asked])

    def whole(self, rankings: Rankings) -> Rankings:
        """Returns rankings of the drawn questions as rankings of all questions; those of the others are empty."""
        shape = len(self.asked), rankings.ids.shape[1]
        ids, scores = np.full(shape, PAD, np.int64), np.full(shape, -np.inf, rankings.scores.dtype)
        ids[self.asked], scores[self.asked] = rankings.ids, rankings.scores
        return replace(rankings, ids=ids, scores=scores)

    def estimated(self, before: Floats, after: Floats) -> Floats:
        """Returns the value of each question; `after` counts on the drawn questions only."""
        values = np.array(before, dtype=np.float64)
        for stratum in self.strata:
            drawn = stratum[self.asked[stratum]]
            n = len(drawn)
            differences = after[drawn] - before[drawn]
            mean = differences.mean()
            values[stratum] += mean
            values[drawn] += len(stratum) / n * _residuals(differences - mean)
        return values


def _residuals(own: Floats) -> Floats:
    """Returns residuals with the blended variance; alternating ones if all are 0."""
    n = len(own)
    variance = (own @ own + _USUAL_COUNTS * USUAL**2) / (n - 1 + _USUAL_COUNTS)
    shape = own if own @ own > 0 else np.resize([1.0, -1.0], n)
    shape = shape - shape.mean()
    return np.asarray(shape * np.sqrt(n * variance / max(shape @ shape, 1e-12)))


def drawn_part(queries: Sequence[ExamQuery]) -> QuestionSample | None:
    """Draws the same questions each time; None if the exam is so short that all of them are asked."""
    keys = list(zip(held_out(queries), evidence_groups(queries), strict=True))
    order = sorted(range(len(queries)), key=lambda i: hashlib.blake2b(queries[i].text.encode()).digest())
    asked = np.zeros(len(queries), np.bool_)
    strata = []
    rest = max(0, SAMPLE_QUESTIONS - _MIN_PER_STRATUM * len(set(keys)))
    for key in sorted(set(keys)):
        stratum = [i for i in order if keys[i] == key]
        asked[stratum[: _MIN_PER_STRATUM + round(rest * len(stratum) / len(queries))]] = True
        strata.append(np.array(sorted(stratum), np.int64))
    return None if asked.all() else QuestionSample(asked, tuple(strata))


def timed_while_ranking(contenders: Sequence[Contender], steps: Sequence[Sequence[Step]]) -> dict[str, list[float]]:
    """The milliseconds of the reranker of each drawn contender that has one, by pipeline. The first question loads the
    model and does not count."""
    return {
        str(contender.pipeline): [1000 * seconds for seconds in made[0].seconds[1:]]
        for contender, made in zip(contenders, steps, strict=True)
        if contender.drawn and len(made) == 1 and len(made[0].seconds) > 1
    }


def about_parts(plan: Plan, asked: BoolArray) -> str:
    """Says which configurations were asked a part of the questions, why, and how to ask all; "" if there is none."""
    counts, total = asked.sum(axis=0).tolist(), len(asked)
    slow = [i for i, count in enumerate(counts) if count < total]
    if not slow:
        return ""
    rows = plan.contenders
    listed = ", ".join(rows[i].name for i in slow)
    without = {rows[i].pipeline.path for i in slow}
    named = [*(row.name for row in rows if str(row.pipeline) in without), *(rows[i].name for i in slow)]
    exam = ["--exam", plan.exam.name.removesuffix("-held-out")]
    command = shlex.join(["surefind", "bench", *exam, *(word for name in named for word in ("-p", name))])
    return (
        f"Asked {counts[slow[0]]} of {total} questions, drawn at random, because of the time: {listed}. The figures "
        "are estimates: those of the same pipeline without its reranker, plus the difference on the drawn questions. "
        f"To ask all questions: {command}."
    )
