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
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefind.base.types import Floats

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
