"""The race: who is dropped, when, and how often the best one is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from surefind.tune.race import FIRST, Race, blocks, t_quantile, upper_bounds
from surefind.types import Floats

SLACK = 0.0075


def run(scores: Floats, alpha: float = 0.05) -> Race:
    """Races the columns on all rows."""
    ends = blocks(len(scores))
    race = Race(scores.shape[1], len(ends), SLACK, alpha)
    for start, end in zip([0, *ends], ends, strict=False):
        race.add(scores[start:end][:, race.alive])
    return race


def columns(*means: float, questions: int = 256, spread: float = 0.2, seed: int = 1) -> Floats:
    rng = np.random.default_rng(seed)
    base = rng.uniform(0.2, 0.8, (questions, 1))
    return np.asarray(base + np.array(means) + rng.normal(0, spread, (questions, len(means))))


def test_blocks_double_and_end_with_all_questions() -> None:
    assert blocks(100) == [16, 32, 64, 100]
    assert blocks(16) == [16]
    assert blocks(0) == []


def test_a_candidate_far_behind_is_dropped_in_the_first_block() -> None:
    race = run(columns(0.0, -0.6, spread=0.05))
    (drop,) = race.drops
    assert (drop.candidate, drop.leader, drop.questions) == (1, 0, FIRST)
    assert drop.difference == pytest.approx(-0.6, abs=0.05)
    assert drop.bound < SLACK


def test_a_dropped_candidate_is_asked_no_more() -> None:
    race = run(columns(0.0, -0.6, spread=0.05))
    assert race.questions.tolist() == [256, 16]
    assert race.scores.shape == (256, 1)


def test_an_equal_candidate_is_dropped_once_it_cannot_be_better() -> None:
    """Both give the same answers: there is nothing to gain from the second one."""
    same = columns(0.0)
    race = run(np.repeat(same, 2, axis=1))
    assert [drop.candidate for drop in race.drops] == [1]


def test_close_candidates_with_noise_both_survive() -> None:
    assert run(columns(0.0, 0.01, questions=64, spread=0.3)).alive == [0, 1]


def test_nobody_is_dropped_on_few_documents() -> None:
    """Sixty questions about ten documents are ten units, not sixty."""
    differences = np.stack([np.zeros(60), np.full(60, -0.5)], axis=1)
    assert np.isinf(upper_bounds(differences, 0.01, np.arange(60) // 6)).all()
    assert np.isfinite(upper_bounds(differences, 0.01)).all()


@pytest.mark.parametrize("freedom", [15, 31, 127])
@pytest.mark.parametrize("p", [0.95, 0.999, 1 - 1e-5])
def test_quantiles_are_those_of_student(freedom: int, p: float) -> None:
    assert t_quantile(p, freedom) == pytest.approx(stats.t.ppf(p, freedom), rel=0.01)


def test_the_best_is_dropped_less_often_than_promised() -> None:
    """Twenty candidates, one better by more than the slack; scores as discrete and skewed as nDCG is."""
    rng = np.random.default_rng(2)
    lost = 0
    for _ in range(200):
        chance = rng.beta(0.7, 0.7, (192, 1)).clip(0.05, 0.95)
        rank = rng.geometric(np.repeat(chance, 20, axis=1))
        scores = np.where(rank <= 10, 1 / np.log2(rank + 1), 0.0)
        scores[:, 7] = np.clip(scores[:, 7] + 0.03, 0, 1.03)
        lost += 7 not in run(scores).alive
    assert lost <= 200 * 0.05


def test_most_of_the_work_is_saved() -> None:
    """Thirty candidates of which most are clearly worse."""
    race = run(columns(0.0, *np.linspace(-0.5, -0.1, 29), questions=512, spread=0.15))
    assert race.questions.sum() < 0.25 * 512 * 30
