"""Recommends the configuration that should serve *real* questions best, and says how sure that is.

Questions written from the documents repeat their words and would choose wrongly, so the recommendation starts from a
prior: how each configuration did on real questions of other corpora (`prior.json`, made by
benchmarks/exam_validity.py). The exam's questions then count by what their kind has been measured to be worth: real
questions by their sampling error alone, questions in other words than the document's with an error on top, verbatim
questions not at all (`prior` has the arithmetic).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from surefind.bench.prior import Belief, Choice, Kind, choose, evidence, regret_after, sampling_error
from surefind.exam.known_item import FAMILIES
from surefind.types import Floats

MEASURE = "nDCG@10"
"""The measure of the prior."""
MARGIN = 0.01
"""Differences in nDCG@10 up to this do not matter to users: a configuration within it counts as equally good."""
_FEWEST = 10
"""Questions of a kind that are needed to count; the covariance of fewer is too uncertain."""
_UNKNOWN_SPREAD = 0.05
"""Standard deviation of the prior of a configuration that was not measured on other corpora."""
_UNKNOWN_QUESTION = 0.25
"""Standard deviation of one question's difference for such a configuration."""
WRITTEN = frozenset({"heading_paraphrase", "sf1h", "sf2h", "mf2h"})
"""Families that are written in other words than the document's: by rules, or by a language model. Too few collections
have them beside real questions to measure their error, so they count like the real questions of another corpus. Other
families of known-item questions never choose."""
_MORE = (5, 10, 20, 40, 80, 160, 320, 640)


@dataclass(frozen=True)
class Recommendation:
    best: int
    within: float
    """Probability that no configuration is better by more than `MARGIN` on real questions."""
    regret: float
    """Expected loss against the best configuration, in points of nDCG@10 from 0 to 1."""
    more: int | None
    """Real questions that would halve the expected loss; None if it is negligible or would take too many."""
    means: list[float]
    """Posterior mean of each configuration's difference to the default pipeline."""
    real: int
    """Real questions of the exam that counted."""
    other: dict[str, int]
    """Questions of other kinds that counted, by family."""
    unknown: list[int]
    """Configurations without a prior."""


def recommend(specs: Sequence[str], scores: Floats, families: Sequence[str]) -> Recommendation:
    """Recommends one of the configurations with these pipeline specs.

    `scores` is nDCG@10, (questions, configurations); `families` names the family of each question."""
    known = _table()
    columns = [known["specs"].index(spec) if spec in known["specs"] else -1 for spec in specs]
    against = _against(columns, known)
    mean = np.array(known["mean"])
    belief = Belief(
        against @ _row(mean, columns, float(mean.mean())),
        _turned(against, _part(known["covariance"], columns, _UNKNOWN_SPREAD**2)),
    )
    per_question = _turned(against, _part(known["per_question"], columns, _UNKNOWN_QUESTION**2))
    differences = np.asarray(scores, dtype=np.float64) @ against.T
    groups = np.array([_group(family) for family in families])
    counted: dict[str, int] = {}
    for group in dict.fromkeys(groups.tolist()):
        part = differences[groups == group]
        if group and len(part) >= _FEWEST:
            counted[group] = len(part)
            belief = belief.updated(evidence(part, _kind(group, columns, against, known), per_question))
    choice = choose(belief, MARGIN)
    real = counted.pop("real", 0)
    if real:
        per_question = real * sampling_error(differences[groups == "real"], per_question)
    more = _halving(belief, per_question, choice)
    unknown = [i for i, column in enumerate(columns) if column < 0]
    return Recommendation(choice.best, choice.within, choice.regret, more, belief.mean.tolist(), real, counted, unknown)


def describe(names: Sequence[str], found: Recommendation, corpora: int) -> str:
    """The recommendation in words: what, how sure, on what basis, and what would make it surer."""
    sure = "more than 99%" if found.within > 0.99 else f"{found.within:.0%}"
    text = (
        f"Recommendation for real questions: {names[found.best]}. The probability is {sure} that no configuration of "
        f"this table is better by more than {MARGIN} nDCG@10; the expected loss is {100 * found.regret:.1f} points."
    )
    basis = [f"real questions on {corpora} other collections"]
    if found.real:
        basis.append(f"{found.real} real questions of this exam")
    basis += [f"{count} {family} questions" for family, count in found.other.items()]
    text += f" It rests on {' and '.join(filter(None, [', '.join(basis[:-1]), basis[-1]]))}"
    text += "." if found.real else "; questions cut from the documents do not choose."
    if found.more:
        text += f" About {found.more} {'more ' if found.real else ''}real questions would halve the expected loss."
    if found.unknown:
        listed = ", ".join(names[i] for i in found.unknown[:4])
        text += f" Not measured on other collections: {listed}{' …' if len(found.unknown) > 4 else ''}."
    return text


def corpora() -> int:
    """How many collections the prior was measured on."""
    return len(_table()["corpora"])


def _against(columns: Sequence[int], known: dict[str, Any]) -> Floats:
    """The matrix that turns scores into differences to a reference: the default pipeline, another configuration with a
    prior, or the mean of all."""
    size = len(columns)
    default = known["specs"].index(known["default"])
    measured = [i for i, column in enumerate(columns) if column >= 0]
    reference = columns.index(default) if default in columns else next(iter(measured), None)
    weights = np.full(size, 1 / size) if reference is None else np.eye(size)[reference]
    return np.asarray(np.eye(size) - np.outer(np.ones(size), weights))


def _turned(against: Floats, covariance: Floats) -> Floats:
    return np.asarray(against @ covariance @ against.T + 1e-9 * np.eye(len(against)))


def _kind(group: str, columns: Sequence[int], against: Floats, known: dict[str, Any]) -> Kind | None:
    """Bias and error of a kind of questions; None for real ones."""
    if group == "real":
        return None
    measured = known["kinds"].get(group)
    if measured is None:
        return Kind(np.zeros(len(columns)), _turned(against, _part(known["covariance"], columns, 1.0)))
    bias = _row(np.array(measured["bias"]), columns, 0.0)
    return Kind(against @ bias, _turned(against, _part(measured["error"], columns, 1.0)))


def _row(values: Floats, columns: Sequence[int], otherwise: float) -> Floats:
    return np.array([values[column] if column >= 0 else otherwise for column in columns])


def _part(matrix: Any, columns: Sequence[int], otherwise: float) -> Floats:
    """Rows and columns of a covariance; a configuration that is not there gets a variance of its own."""
    found = np.zeros((len(columns), len(columns)))
    matrix = np.asarray(matrix)
    for i, a in enumerate(columns):
        for j, b in enumerate(columns):
            if a >= 0 and b >= 0:
                found[i, j] = matrix[a, b]
            elif i == j:
                found[i, j] = otherwise
    return found


def _group(family: str) -> str:
    """`real`, the family itself if it counts as evidence, or "" for questions that never choose."""
    if family in WRITTEN:
        return family
    return "" if family in FAMILIES else "real"


def _halving(belief: Belief, per_question: Floats, choice: Choice) -> int | None:
    if choice.regret < MARGIN / 10:
        return None
    return next((n for n in _MORE if regret_after(belief, per_question, n) <= choice.regret / 2), None)


@cache
def _table() -> dict[str, Any]:
    text = files("surefind.bench").joinpath("prior.json").read_text(encoding="utf-8")
    return dict(json.loads(text))
