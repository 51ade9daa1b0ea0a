"""Combines what is known from other corpora with what an exam measured: empirical Bayes, in closed form.

The unknown θ is the mean difference of each configuration to the default pipeline on *real* questions of this corpus.

    prior       θ ~ N(μ, B)              μ, B: mean and covariance of θ over corpora with real questions
    evidence    d ~ N(θ + b, R + S)      d: the differences that an exam measured; S: its sampling error;
                                         b, R: bias and error of its kind of questions, measured on those corpora
                                         (b = R = 0 for real questions)
    posterior   K = P (P + R + S)⁻¹      m ← m + K (d - b - m)      P ← P - K P

The recommendation is the configuration with the highest posterior mean. Its probability to be within a margin of the
best and its expected regret are counted over draws from the posterior (Efron and Morris 1975 for the idea; Berger 1985,
section 4.7, for the decision).

Few corpora are known, so covariances are shrunk towards a target that has their variances and the correlations of the
per-question differences: configurations that act alike on questions act alike on corpora.

What other collections say about configurations before this one asks a question (`prior.json`).

The table has nDCG@10 differences to the default pipeline on real questions: for retrievers and fusions with their
covariance, and for single changes to the default (a reranker on top, other parameters of BM25, `pair` in its place)
with a variance each.
Most configurations are composed of such parts, so each row of a benchmark is a sum of independent unknowns z:

    θ = A z     z: the table's configurations, the changes, and one unknown for each part that was never measured

    bm25 + dense >> rrf >> cross_encoder      the fusion + the change that the cross-encoder makes
    bm25 + dense(model=mine) >> rrf           an unknown of its own
    another layout                            the pipeline + an unknown that all rows of this layout share

A change was measured on top of the default. On top of another configuration it may do more or less, so an unknown of
its own is added there.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefind.base.types import Floats
from surefind.engine.search.pipeline import DEPTH, Pipeline

SHRINK = 0.5
"""Weight of the target in a covariance between corpora; chosen on left-out corpora (docs/results/exam-validity.md)."""
TYPICAL = 50
"""How many questions the typical covariance of a question counts for."""
WIDER = 1.5
"""Factor of the covariance between corpora: an estimate from few corpora is too narrow. Chosen on left-out corpora."""
STAY = 0.002
"""A configuration replaces the default only if it is expected to be better by this much: what a few corpora say about
smaller differences is noise."""
DRAWS = 20_000
_SEED = 20_240_607
_RIDGE = 1e-8
"""Added to variances, so that equal configurations do not make a matrix singular."""


@dataclass(frozen=True)
class Belief:
    """A distribution over the differences of configurations to the default: normal, or Student's t."""

    mean: Floats
    covariance: Floats
    freedom: float = math.inf
    """Degrees of freedom. The covariance between few corpora is itself uncertain, so its draws have the wider tails of
    Student's t with one degree less than there are corpora."""

    def updated(self, evidence: ExamEvidence) -> Belief:
        """Returns the posterior after one exam."""
        total = self.covariance + evidence.error
        gain = np.linalg.solve(total, self.covariance).T
        mean = self.mean + gain @ (evidence.differences - evidence.bias - self.mean)
        covariance = self.covariance - gain @ self.covariance
        return Belief(mean, (covariance + covariance.T) / 2, self.freedom)

    def draws(self, count: int = DRAWS, seed: int = _SEED) -> Floats:
        """Samples of θ, (draws, configurations); the same each time."""
        rng = np.random.default_rng(seed)
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        spread = rng.standard_normal((count, len(self.mean))) @ root.T
        if math.isfinite(self.freedom):
            spread /= np.sqrt(rng.chisquare(self.freedom, count) / self.freedom)[:, None]
        return np.asarray(self.mean + spread)


@dataclass(frozen=True)
class ExamEvidence:
    """The differences to the default that an exam measured, and how wrong they may be."""

    differences: Floats
    error: Floats
    """Covariance of the error: sampling, and that of the kind of questions."""
    bias: Floats


@dataclass(frozen=True)
class Choice:
    """A recommended configuration and how sure it is."""

    best: int
    within: float
    """Probability that no configuration is better by more than the margin."""
    regret: float
    """Expected difference to the best configuration."""
    as_good: list[float]
    """For each configuration, the probability that it is not worse than the chosen one by more than the margin."""
    rival: int
    """The configuration that is most likely to be better by more than the margin."""


@dataclass(frozen=True)
class Kind:
    """How one kind of exam question differs from real questions: its bias, and the covariance of its error."""

    bias: Floats
    error: Floats


def choose(belief: Belief, margin: float, default: int | None = None) -> Choice:
    """Recommends the configuration with the highest posterior mean, or the default if nothing is better by `STAY`."""
    best = int(np.argmax(belief.mean))
    if default is not None and belief.mean[best] - belief.mean[default] < STAY:
        best = default
    draws = belief.draws()
    lost = draws.max(axis=1) - draws[:, best]
    as_good = (draws[:, [best]] - draws <= margin).mean(axis=0)
    better = (draws - draws[:, [best]] > margin).mean(axis=0)
    return Choice(best, float((lost <= margin).mean()), float(lost.mean()), as_good.tolist(), int(np.argmax(better)))


def regret_after(belief: Belief, per_question: Floats, questions: int, draws: int = 4_000) -> float:
    """Expected regret after so many more real questions, chosen at random.

    `per_question` is the covariance of one question's differences. Each draw is a possible truth; the questions are
    simulated from it, the belief is updated, and the regret of the new recommendation counts."""
    truth = belief.draws(draws)
    noise = Belief(np.zeros(len(belief.mean)), per_question / questions).draws(draws, _SEED + 1)
    gain = np.linalg.solve(belief.covariance + per_question / questions + _ridge(belief.mean), belief.covariance).T
    means = belief.mean + (truth + noise - belief.mean) @ gain.T
    return float((truth.max(axis=1) - truth[np.arange(draws), means.argmax(axis=1)]).mean())


def sampling_error(differences: Floats, typical: Floats | None = None, effect: float = 1.0) -> Floats:
    """Covariance of the mean of per-question differences, (questions, configurations).

    Few questions say little about their own covariance, and nothing about most directions if there are fewer of them
    than configurations. So it is blended with the `typical` covariance of one question, which counts as `TYPICAL`
    questions (the mean of an inverse-Wishart posterior). With a design effect, n questions count like n / effect."""
    count = len(differences) / effect
    own = np.atleast_2d(np.cov(differences, rowvar=False))
    if typical is not None:
        own = (max(0.0, count - 1) * own + TYPICAL * typical) / (max(0.0, count - 1) + TYPICAL)
    return np.asarray(own / count + _ridge(differences[0]))


def fit_prior(corpora: Sequence[Floats], shrink: float = SHRINK) -> Belief:
    """Estimates the prior from the per-question differences of several corpora, all with the same columns."""
    means = np.array([scores.mean(axis=0) for scores in corpora])
    noise = np.mean([sampling_error(scores) for scores in corpora], axis=0)
    spread = WIDER * _spread(means, noise, pooled(corpora), shrink)
    return Belief(means.mean(axis=0), spread, len(corpora) - 1)


def fit_kind(exams: Sequence[Floats], real: Sequence[Floats], shrink: float = SHRINK) -> Kind:
    """Estimates bias and error of a kind of questions from corpora that have real questions as well."""
    gaps = np.array([exam.mean(axis=0) - truth.mean(axis=0) for exam, truth in zip(exams, real, strict=True)])
    noise = np.mean([sampling_error(e) + sampling_error(r) for e, r in zip(exams, real, strict=True)], axis=0)
    error = _spread(gaps, noise, pooled(real), shrink)
    return Kind(gaps.mean(axis=0), error * (1 + 1 / len(gaps)))


def design_effect(differences: Floats, clusters: NDArray[np.int64]) -> float:
    """How many times larger the variance of the mean is because questions about one document are alike, at least 1
    (Kish 1965): squared sums over clusters, against squares of single questions, over all configurations."""
    residuals = differences - differences.mean(axis=0)
    sums = np.zeros((int(clusters.max()) + 1, differences.shape[1]))
    np.add.at(sums, clusters, residuals)
    alone = float((residuals**2).sum())
    return max(1.0, float((sums**2).sum()) / alone) if alone > 0 else 1.0


def evidence(
    differences: Floats, kind: Kind | None = None, typical: Floats | None = None, effect: float = 1.0
) -> ExamEvidence:
    """What per-question differences say; without a kind they are of real questions. `effect` is their design effect."""
    error, bias = sampling_error(differences, typical, effect), np.zeros(differences.shape[1])
    if kind is not None:
        error, bias = error + kind.error, kind.bias
    return ExamEvidence(differences.mean(axis=0), error, bias)


def pooled(corpora: Sequence[Floats]) -> Floats:
    """Covariance of one question's differences, averaged over corpora."""
    return np.asarray(np.mean([np.atleast_2d(np.cov(scores, rowvar=False)) for scores in corpora], axis=0))


def _spread(means: Floats, noise: Floats, within: Floats, shrink: float) -> Floats:
    """Covariance between corpora without its sampling noise, shrunk, and made positive definite."""
    observed = np.atleast_2d(np.cov(means, rowvar=False)) - noise
    variances = np.maximum(np.diag(observed), 0.1 * np.diag(np.atleast_2d(np.cov(means, rowvar=False))))
    scale = np.sqrt(variances)
    spread = np.sqrt(np.maximum(np.diag(within), _RIDGE))
    target = within / np.outer(spread, spread) * np.outer(scale, scale)
    shrunk = (1 - shrink) * observed + shrink * target
    values, vectors = np.linalg.eigh((shrunk + shrunk.T) / 2)
    positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
    # The mean of a few corpora is itself uncertain by a share of the same covariance.
    return np.asarray(positive * (1 + 1 / len(means)) + _ridge(means[0]))


def _ridge(like: Floats) -> Floats:
    return np.asarray(_RIDGE * np.eye(len(like)))


MEASURE = "nDCG@10"
"""The measure of the table."""
_UNKNOWN_SPREAD = 0.05
"""Standard deviation between collections of a part that was not measured."""
_UNKNOWN_QUESTION = 0.25
"""Standard deviation of one question's difference for such a part."""
_INTERPLAY = 0.01
"""Standard deviation of what a measured change does differently on top of another configuration than the default."""
_OTHER_LAYOUT = -0.01
"""Expected difference of another layout than the default, which was best on all four collections that compare layouts
(docs/results/chunking.md)."""
_OTHER_MEASURE = 2.0
"""How much wider the spread between collections is for another measure than the table's."""


@dataclass(frozen=True)
class Known:
    """What is known of the rows of a benchmark, as differences to a reference row."""

    belief: Belief
    per_question: Floats
    """Covariance of one question's differences."""
    against: Floats
    """The matrix that turns scores into differences to the reference."""
    unknown: list[int]
    """The rows with a part that was not measured on other collections."""
    default: int | None
    """The row of the default pipeline, if there is one."""


def collections() -> int:
    """How many collections the table was measured on."""
    return len(_table()["corpora"])


def stamp() -> str:
    """A hash of the table. A report depends on it."""
    return hashlib.blake2b(json.dumps(_table(), sort_keys=True).encode(), digest_size=8).hexdigest()


def known(specs: Sequence[str], layouts: Sequence[str] = (), measure: str = MEASURE) -> Known:
    """Returns what is known of configurations with these pipelines, and layouts if they differ."""
    parts = _Unknowns(_table())
    rows = [parts.of(spec, layout) for spec, layout in zip(specs, layouts or [""] * len(specs), strict=True)]
    mix = np.zeros((len(rows), len(parts.means)))
    for i, row in enumerate(rows):
        for part in row:
            mix[i, part] += 1.0
    against = _against(rows, parts)
    turned = against @ mix
    spread = _OTHER_MEASURE**2 if measure != MEASURE else 1.0
    belief = Belief(turned @ np.array(parts.means), _between(turned, parts.spread()) * spread, collections() - 1)
    unknown = [i for i, row in enumerate(rows) if parts.unmeasured & row]
    default = next((i for i, row in enumerate(rows) if row == {parts.default()}), None)
    return Known(belief, _between(turned, parts.per_question()), against, unknown, default)


class _Unknowns:
    """The independent unknowns that configurations are composed of, numbered as they are needed."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._table = table
        self._numbers: dict[tuple[str, str], int] = {}
        self.means: list[float] = list(table["mean"])
        self._variances: list[float] = []
        self._question_variances: list[float] = []
        self.unmeasured: set[int] = set()

    def of(self, spec: str, layout: str) -> set[int]:
        """The numbers of the unknowns whose sum is this configuration."""
        base, changes, exact = self._taken_apart(spec)
        if base in self._table["specs"]:
            effects = {self._table["specs"].index(base)} | {self._change(change) for change in changes}
            if not exact or (changes and base != self._table["default"]):
                effects.add(self._own("interplay", spec, 0.0, _INTERPLAY, _INTERPLAY * 5))
        else:
            average = sum(self._table["mean"]) / len(self._table["mean"])
            effects = {self._own("pipeline", spec, average, _UNKNOWN_SPREAD, _UNKNOWN_QUESTION, unmeasured=True)}
        if layout and layout != self._table["layout"]:
            part = self._own("layout", layout, _OTHER_LAYOUT, _UNKNOWN_SPREAD, _UNKNOWN_QUESTION, unmeasured=True)
            effects.add(part)
        return effects

    def spread(self) -> Floats:
        """Covariance of all unknowns between collections."""
        return _blocks(self._table["covariance"], self._variances)

    def per_question(self) -> Floats:
        """Covariance of one question's values of all unknowns."""
        return _blocks(self._table["per_question"], self._question_variances)

    def default(self) -> int:
        return int(self._table["specs"].index(self._table["default"]))

    def _taken_apart(self, spec: str) -> tuple[str, list[str], bool]:
        """A configuration of the table, the changes to it, and whether nothing else differs."""
        if spec in self._table["specs"]:
            return spec, [], True
        pipeline = Pipeline.parse(spec)
        if pipeline.path in self._table["effects"]:
            return self._table["default"], [pipeline.path, *map(str, pipeline.rerank)], pipeline.depth == DEPTH
        usual = {stage.name: stage for stage in Pipeline.parse(self._table["default"]).retrieve}
        changes = [str(stage) for stage in pipeline.rerank]
        kept = []
        for stage in pipeline.retrieve:
            if str(stage) in self._table["effects"]:
                changes.append(str(stage))
                stage = usual[stage.name]
            kept.append(stage)
        base = replace(pipeline, retrieve=tuple(kept), rerank=(), depth=DEPTH)
        return str(base), changes, pipeline.depth == DEPTH

    def _change(self, stage: str) -> int:
        measured = self._table["effects"].get(stage)
        if measured is None:
            return self._own("stage", stage, 0.0, _UNKNOWN_SPREAD, _UNKNOWN_QUESTION, unmeasured=True)
        return self._own("stage", stage, measured["mean"], measured["spread"], measured["question_spread"])

    def _own(
        self, kind: str, key: str, mean: float, spread: float, question: float, *, unmeasured: bool = False
    ) -> int:
        if (kind, key) not in self._numbers:
            self._numbers[kind, key] = len(self.means)
            self.means.append(mean)
            self._variances.append(spread**2)
            self._question_variances.append(question**2)
            if unmeasured:
                self.unmeasured.add(self._numbers[kind, key])
        return self._numbers[kind, key]


def _against(rows: Sequence[set[int]], parts: _Unknowns) -> Floats:
    """Differences to the default pipeline if it is a row, else to the first measured row, else to the mean of all."""
    size = len(rows)
    measured = [i for i, row in enumerate(rows) if not row & parts.unmeasured]
    default = [i for i in measured if rows[i] == {parts.default()}]
    reference = next(iter([*default, *measured]), None)
    weights = np.full(size, 1 / size) if reference is None else np.eye(size)[reference]
    return np.asarray(np.eye(size) - np.outer(np.ones(size), weights))


def _between(mix: Floats, covariance: Floats) -> Floats:
    return np.asarray(mix @ covariance @ mix.T + 1e-9 * np.eye(len(mix)))


def _blocks(first: Sequence[Sequence[float]], variances: Sequence[float]) -> Floats:
    size = len(first)
    matrix = np.zeros((size + len(variances),) * 2)
    matrix[:size, :size] = first
    matrix[range(size, len(matrix)), range(size, len(matrix))] = variances
    return matrix


@cache
def _table() -> dict[str, Any]:
    text = files("surefind.lab.bench").joinpath("prior.json").read_text(encoding="utf-8")
    return dict(json.loads(text))
