"""Recommends the configuration that should serve *real* questions best, and says how sure that is.

Questions written from the documents repeat their words and would choose wrongly, so the recommendation starts from a
prior: how each configuration did on real questions of other collections (`prior_table`). The exam's questions then
count by what their kind has been measured to be worth: real questions by their sampling error alone, questions in other
words than the document's with an error on top, verbatim questions not at all (`prior` has the arithmetic).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefind.base.types import Floats
from surefind.lab.bench.prior import Belief, Choice, Kind, choose, design_effect, evidence, regret_after, sampling_error
from surefind.lab.bench.prior_table import MEASURE, known
from surefind.lab.exam.clusters import clusters_of
from surefind.lab.exam.known_item import EVERY
from surefind.lab.exam.model import ExamQuery

MARGIN = 0.015
"""Differences up to this do not matter to users: a configuration within it is as good. Chosen by measurement
(docs/results/exam-validity.md)."""
AS_GOOD = 0.95
"""The probability of not being worse by more than the margin that makes a configuration count as equally good."""
_MIN_QUESTIONS = 10
"""Questions of a kind that are needed to count; the covariance of fewer is too uncertain."""
WRITTEN = frozenset({"heading_paraphrase", "sf1h", "sf2h", "mf2h"})
"""Families that are written in other words than the document's: by rules, or by a language model. Too few collections
have them beside real questions to measure their error, so they count like the real questions of another collection.
Other families of known-item questions never choose."""
_REAL = "real"
_POWER = 1.645 + 0.842
"""One-sided 5% level and 80% power, in standard errors."""
_MORE = (5, 10, 20, 40, 80, 160, 320, 640)


@dataclass(frozen=True)
class Recommendation:
    best: int
    """The configuration with the highest expected score on real questions."""
    within: float
    """Probability that no configuration is better by more than the margin on real questions."""
    regret: float
    """Expected loss against the best configuration, on the scale of the measure (0 to 1)."""
    more: int | None
    """Real questions that would halve the expected loss; None if it is negligible or would take too many."""
    means: list[float]
    """Posterior mean of each configuration's difference to the default pipeline."""
    as_good: list[float]
    """For each configuration, the probability that it is not worse than the best by more than the margin."""
    real: int
    """Real questions of the exam that counted."""
    other: dict[str, int]
    """Questions of other kinds that counted, by family."""
    unknown: list[int]
    """Configurations with a part that was not measured on other collections."""
    rival: int
    """The configuration that is most likely to be better by more than the margin."""
    decisive: int | None
    """More real questions that would tell it from the best; None if the recommendation is sure enough."""
    margin: float = MARGIN
    measure: str = MEASURE

    @property
    def equals(self) -> list[int]:
        """The best configuration, and those that are not worse by more than the margin (probability `AS_GOOD`)."""
        return [i for i, probability in enumerate(self.as_good) if i == self.best or probability >= AS_GOOD]


def recommend(
    specs: Sequence[str],
    scores: Floats,
    queries: Sequence[ExamQuery],
    layouts: Sequence[str] = (),
    measure: str = MEASURE,
    margin: float = MARGIN,
) -> Recommendation:
    """Recommends one of the configurations with these pipeline specs, and layouts if they differ.

    `scores` has the measure of each question, (questions, configurations)."""
    start = known(specs, layouts, measure)
    belief, per_question = start.belief, start.per_question
    differences = np.asarray(scores, dtype=np.float64) @ start.against.T
    groups = np.array(evidence_groups(queries))
    clusters = clusters_of(queries)
    counted: dict[str, int] = {}
    for group in dict.fromkeys(groups.tolist()):
        part = differences[groups == group]
        effect = design_effect(part, clusters[groups == group])
        if group:
            counted[group] = len(part)
            kind = None if group == _REAL else Kind(np.zeros(len(specs)), start.belief.covariance)
            belief = belief.updated(evidence(part, kind, start.per_question, effect))
    choice = choose(belief, margin, start.default)
    real = counted.pop(_REAL, 0)
    if real:
        per_question = real * sampling_error(differences[groups == _REAL], per_question)
    return Recommendation(
        choice.best,
        choice.within,
        choice.regret,
        _halving(belief, per_question, choice, margin),
        belief.mean.tolist(),
        choice.as_good,
        real,
        counted,
        start.unknown,
        choice.rival,
        _decisive(per_question, choice, margin, real),
        margin,
        measure,
    )


def percent(probability: float) -> str:
    return "more than 99%" if probability > 0.99 else f"{probability:.0%}"


def probability(names: Sequence[str], advice: Recommendation, chosen: int, longer: str = "longer") -> str:
    """How sure it is that `chosen` is the one to use, in one sentence. Another one than the best takes its place only
    if searches with the best take `longer`."""
    points = f"{100 * advice.margin:g} points"
    if chosen == advice.best:
        text = (
            f"With {percent(advice.within)} probability nothing in this table is better than {names[chosen]} by more "
            f"than {points} on real questions"
        )
    else:
        text = (
            f"With {percent(advice.as_good[chosen])} probability {names[advice.best]}, whose searches take {longer}, "
            f"is not better than {names[chosen]} by more than {points} on real questions"
        )
    more = f"; {advice.more} {'more ' if advice.real else ''}real questions would halve the doubt"
    return text + (more if advice.more else "") + "."


def describe(names: Sequence[str], advice: Recommendation, collections: int) -> str:
    """What the probability rests on, and what would make it surer."""
    best = names[advice.best]
    text = (
        f"{best} has the highest expected {advice.measure} on real questions; the expected loss with it is "
        f"{100 * advice.regret:.1f} points."
    )
    basis = [f"real questions on {collections} other collections"]
    if advice.real:
        basis.append(f"{advice.real} real questions of this exam")
    basis += [f"{count} {family} questions" for family, count in advice.other.items()]
    text += f" This rests on {' and '.join(filter(None, [', '.join(basis[:-1]), basis[-1]]))}"
    text += "." if advice.real else "; questions cut from the documents do not choose."
    if advice.decisive:
        more = " more" if advice.real else ""
        text += f" About {advice.decisive}{more} real questions would tell {best} from {names[advice.rival]}."
    if advice.unknown:
        listed = ", ".join(names[i] for i in advice.unknown[:4])
        text += f" Not measured on other collections: {listed}{' …' if len(advice.unknown) > 4 else ''}."
    return text


def chooses(query: ExamQuery) -> bool:
    """Whether a question may choose a configuration: questions that repeat the words of their document may not."""
    return bool(_group(query))


def evidence_groups(queries: Sequence[ExamQuery]) -> list[str]:
    """The group in which each question counts as evidence; "" for questions that do not count: those that never choose,
    and those of a group that is too small."""
    groups = [_group(query) for query in queries]
    sizes = Counter(groups)
    return [group if sizes[group] >= _MIN_QUESTIONS else "" for group in groups]


def _group(query: ExamQuery) -> str:
    """`real`, the family if it counts as evidence, or "" for a question that never chooses."""
    if query.family in WRITTEN:
        return query.family
    if query.family in EVERY:
        return ""
    return _REAL


def _decisive(per_question: Floats, choice: Choice, margin: float, real: int) -> int | None:
    """How many more real questions show with 80% power, at the 5% level, that the rival is not better by more than the
    margin if both are equal: n = (1.645 + 0.842)² σ² / margin², with σ² of one question's difference."""
    if choice.within >= AS_GOOD:
        return None
    a, b = choice.best, choice.rival
    variance = per_question[a, a] + per_question[b, b] - 2 * per_question[a, b]
    wanted = math.ceil(_POWER**2 * max(float(variance), 0.0) / margin**2) - real
    return int(float(f"{wanted:.2g}")) if wanted > 0 else None


def _halving(belief: Belief, per_question: Floats, choice: Choice, margin: float) -> int | None:
    if choice.regret < margin / 10:
        return None
    return next((n for n in _MORE if regret_after(belief, per_question, n) <= choice.regret / 2), None)
