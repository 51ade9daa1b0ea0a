"""The race: who is dropped, when, and how often the best one is."""

from __future__ import annotations

import numpy as np
import pytest

from surefind.base.types import Floats
from surefind.engine.search.pipeline import Pipeline
from surefind.lab.bench.plan import Contender
from surefind.lab.tune.search import DOUBT, FIRST_BLOCK, SLACK, Race, Tuned, behind, blocks
from surefind.lab.tune.view import result


def run(scores: Floats) -> Race:
    """Races the columns on all rows."""
    ends = blocks(len(scores))
    race = Race(scores.shape[1])
    for start, end in zip([0, *ends], ends, strict=False):
        race.add(scores[start:end][:, race.alive])
    return race


def columns(*means: float, questions: int = 256, spread: float = 0.2, seed: int = 1) -> Floats:
    rng = np.random.default_rng(seed)
    base = rng.uniform(0.2, 0.8, (questions, 1))
    return np.asarray(base + np.array(means) + rng.normal(0, spread, (questions, len(means))))


def test_blocks_grow_and_end_with_all_questions() -> None:
    assert blocks(100) == [16, 24, 36, 54, 81, 100]
    assert blocks(16) == [16]
    assert blocks(0) == []


def test_a_candidate_far_behind_is_dropped_in_the_first_block() -> None:
    race = run(columns(0.0, -0.6, spread=0.05))
    (drop,) = race.drops
    assert (drop.candidate, drop.leader, drop.questions) == (1, 0, FIRST_BLOCK)
    assert drop.difference < -0.4
    assert drop.chance < DOUBT


def test_a_dropped_candidate_is_asked_no_more() -> None:
    race = run(columns(0.0, -0.6, spread=0.05))
    assert race.questions.tolist() == [256, 16]
    assert race.scores.shape == (256, 1)


def test_close_candidates_with_noise_both_survive() -> None:
    assert run(columns(0.0, 0.01, questions=32, spread=0.3)).alive == [0, 1]


def test_nobody_is_dropped_before_the_first_block_is_complete() -> None:
    race = Race(2)
    race.add(columns(0.0, -0.6, questions=FIRST_BLOCK - 1, spread=0.01))
    assert race.alive == [0, 1]


def test_what_is_believed_of_a_difference_by_hand() -> None:
    """Of 16 differences of -0.2 and 0.0, the mean is -0.1 and the squares add up to 16 · 0.01. With four questions of
    0.25² more, the variance of one is 0.41 / 19 = 0.0216 and that of the mean 0.00135. The belief before has 2 · 0.05²
    = 0.005, so the differences count for 0.005 / 0.00635 = 0.788."""
    means, spreads = behind(np.array([[0.5, 0.3], [0.5, 0.5]] * 8), 0)
    assert means.tolist() == pytest.approx([0, -0.0788], abs=1e-4)
    assert spreads[1] == pytest.approx((0.788 * 0.00135) ** 0.5, abs=1e-4)


def test_few_of_the_dropped_are_better_than_promised() -> None:
    """Truths are drawn from what is believed, scores from the truths. Of the candidates dropped, at most the doubt is
    better than its leader by more than the slack."""
    rng = np.random.default_rng(2)
    dropped = better = 0
    for _ in range(150):
        truth = rng.normal(0, 0.05, 12)
        race = run(0.5 + truth + rng.normal(0, 0.2, (128, 12)))
        dropped += len(race.drops)
        better += sum(truth[drop.candidate] - truth[drop.leader] > SLACK for drop in race.drops)
    assert dropped > 500
    assert better <= DOUBT * dropped


def test_most_of_the_work_is_saved() -> None:
    """Thirty candidates of which most are clearly worse."""
    race = run(columns(0.0, *np.linspace(-0.5, -0.1, 29), questions=512, spread=0.15))
    assert race.questions.sum() < 0.25 * 512 * 30
    assert race.leader == 0 and race.means[0] == pytest.approx(race.scores[:, race.alive.index(0)].mean())


def test_a_race_between_equals_ends_early() -> None:
    rng = np.random.default_rng(4)
    both = rng.uniform(0, 1, (400, 1)) + rng.normal(0, 1e-4, (400, 2))
    race = Race(2)
    race.add(both[:200])
    assert race.over and len(race.drops) == 1
    apart = Race(2)
    apart.add(rng.uniform(0, 1, (20, 2)))
    assert not apart.over


def test_the_result_says_who_is_left_and_what_a_cheaper_winner_loses() -> None:
    race = Race(2)
    race.add(np.array([[0.5, 0.4], [0.5, 0.6]] * 8))
    best, cheaper = (Contender(name, Pipeline.parse(name)) for name in ("bm25", "dense"))
    races = [([best, cheaper], race), ([best], Race(1))]  # the second race was interrupted before its first block
    _, led = result(Tuned("nDCG@10", races=races, winner=best, leader=best))
    assert led == "It scored 0.500 in the race; after 16 questions 1 other candidate is left, which may be as good."
    first, lost = result(Tuned("nDCG@10", races=[([best, cheaper], race)], winner=cheaper, leader=best))
    assert first == "Best: dense."
    assert lost.startswith("bm25 scored more, but no more than 1.5 points, and costs more; after 16 questions 1 other ")
    alone = Race(1)
    alone.add(np.full((16, 1), 0.5))
    _, dropped = result(Tuned("nDCG@10", races=[([best], alone)], winner=best, leader=best))
    assert dropped == "It scored 0.500 in the race; all others were dropped."
