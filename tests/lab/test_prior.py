"""The prior from other corpora, and the recommendation that it gives together with an exam."""

from __future__ import annotations

import numpy as np
import pytest

from surefind import Pipeline
from surefind.base.types import Floats
from surefind.kb.settings.config import default_settings
from surefind.lab.bench import prior
from surefind.lab.bench.presets import PRESETS
from surefind.lab.bench.prior import (
    STAY,
    WIDER,
    Belief,
    ExamEvidence,
    Kind,
    choose,
    design_effect,
    evidence,
    fit_kind,
    fit_prior,
    regret_after,
    sampling_error,
)
from surefind.lab.bench.recommendation import describe, probability, recommend
from surefind.lab.exam.known_item import EVERY
from surefind.lab.exam.model import ExamQuery, Judgment

DEFAULT = "bm25 + dense >> convex(alpha=0.5, missing=score)"
SPECS = [str(Pipeline.parse(text)) for text in (DEFAULT, "bm25", "dense", "bm25 + dense >> rrf(k=60)")]


def belief(mean: list[float], covariance: list[list[float]]) -> Belief:
    return Belief(np.array(mean), np.array(covariance))


def seen(differences: list[float], error: list[list[float]], bias: list[float] | None = None) -> ExamEvidence:
    return ExamEvidence(np.array(differences), np.array(error), np.array(bias or [0.0] * len(differences)))


def test_prior_and_evidence_of_equal_weight_meet_in_the_middle() -> None:
    after = belief([0.0], [[4.0]]).updated(seen([2.0], [[4.0]]))
    assert after.mean.tolist() == pytest.approx([1.0])  # 0 + 4/(4+4) · 2
    assert after.covariance.tolist() == [pytest.approx([2.0])]  # 4 - 4/(4+4) · 4


def test_evidence_on_one_configuration_moves_a_correlated_one() -> None:
    after = belief([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]]).updated(seen([1.0, 0.0], [[0.5, 0.0], [0.0, 1e9]]))
    assert after.mean.tolist() == pytest.approx([1 / 1.5, 0.8 / 1.5], rel=1e-6)


def test_the_bias_of_a_kind_is_taken_off() -> None:
    after = belief([0.0], [[1.0]]).updated(seen([0.5], [[1e-12]], [0.3]))
    assert after.mean.tolist() == pytest.approx([0.2])


def test_evidence_that_is_all_error_changes_nothing() -> None:
    before = belief([0.1, -0.2], [[1.0, 0.2], [0.2, 1.0]])
    after = before.updated(seen([9.0, -9.0], [[1e12, 0.0], [0.0, 1e12]]))
    assert after.mean == pytest.approx(before.mean, abs=1e-9)


def test_updates_in_either_order_agree() -> None:
    before = belief([0.0, 0.0], [[1.0, 0.5], [0.5, 2.0]])
    a, b = seen([0.3, 0.1], [[0.2, 0.1], [0.1, 0.3]]), seen([-0.2, 0.4], [[0.5, 0.0], [0.0, 0.5]])
    one, other = before.updated(a).updated(b), before.updated(b).updated(a)
    assert one.mean == pytest.approx(other.mean)
    assert one.covariance == pytest.approx(other.covariance)


def test_the_prior_of_many_corpora_is_what_they_were_drawn_from() -> None:
    rng = np.random.default_rng(1)
    mean, covariance = np.array([0.05, -0.1]), np.array([[0.004, 0.002], [0.002, 0.003]])
    corpora = [rng.multivariate_normal(truth, np.eye(2) * 0.04, 400) for truth in _truths(rng, mean, covariance, 300)]
    found = fit_prior(corpora, shrink=0.0)
    assert found.mean == pytest.approx(mean, abs=0.01)
    assert found.covariance == pytest.approx(WIDER * covariance, abs=0.0015)


def test_shrinking_keeps_variances_and_takes_the_correlations_of_questions() -> None:
    rng = np.random.default_rng(2)
    within = np.array([[1.0, 0.9], [0.9, 1.0]])
    corpora = [rng.multivariate_normal(rng.normal(0, 1, 2), within, 5000) for _ in range(200)]
    whole = fit_prior(corpora, shrink=1.0).covariance
    assert whole[0, 1] / np.sqrt(whole[0, 0] * whole[1, 1]) == pytest.approx(0.9, abs=0.02)
    assert whole[0, 0] == pytest.approx(WIDER, rel=0.3)


def test_a_kind_has_the_bias_that_it_showed() -> None:
    rng = np.random.default_rng(3)
    real = [rng.normal(0.0, 0.2, (500, 2)) for _ in range(40)]
    exams = [scores + np.array([0.3, -0.1]) for scores in real]
    kind = fit_kind(exams, real)
    assert kind.bias == pytest.approx(np.array([0.3, -0.1]), abs=1e-9)


def test_sampling_error_is_that_of_the_mean() -> None:
    scores = np.array([[1.0], [3.0]])
    assert sampling_error(scores)[0, 0] == pytest.approx(1.0, abs=1e-6)  # variance 2 of 2 questions


def test_questions_about_one_document_count_once_if_they_are_equal() -> None:
    once = np.random.default_rng(2).normal(size=(40, 3))
    five = np.repeat(once, 5, axis=0)
    effect = design_effect(five, np.repeat(np.arange(40), 5))
    assert effect == pytest.approx(5.0)
    assert design_effect(five, np.arange(200)) == pytest.approx(1.0)
    assert design_effect(np.zeros((3, 2)), np.arange(3)) == 1.0


def test_the_stated_probability_is_how_often_it_holds() -> None:
    """Truths are drawn, exams are drawn from them, and the recommendation is judged by the truth."""
    rng = np.random.default_rng(4)
    mean, covariance = np.zeros(4), np.diag([1e-8, 4e-4, 9e-4, 16e-4])
    said, held, lost, regret = [], [], [], []
    for truth in _truths(rng, mean, covariance, 300):
        exam = rng.multivariate_normal(truth, np.eye(4) * 0.09, 60)
        choice = choose(Belief(mean, covariance).updated(evidence(exam)), 0.01)
        said.append(choice.within)
        regret.append(choice.regret)
        held.append(truth.max() - truth[choice.best] <= 0.01)
        lost.append(truth.max() - truth[choice.best])
    assert np.mean(said) == pytest.approx(np.mean(held), abs=0.06)
    assert np.mean(regret) == pytest.approx(np.mean(lost), abs=0.004)


def test_more_questions_lose_less() -> None:
    before = belief([0.0, 0.0, 0.01], [[1e-8, 0, 0], [0, 0.002, 0], [0, 0, 0.002]])
    losses = [regret_after(before, np.eye(3) * 0.04, count) for count in (5, 50, 500)]
    assert losses == sorted(losses, reverse=True)
    assert choose(before, 0.01).regret > losses[-1]


# ---------------------------------------------------------------- the recommendation


def test_every_configuration_of_the_first_preset_has_a_prior() -> None:
    known = prior._table()
    texts = [*PRESETS["context-layer"].contenders.values(), DEFAULT]
    assert {str(Pipeline.parse(text)) for text in texts} <= set(known["specs"])
    size = len(known["specs"])
    assert np.array(known["covariance"]).shape == np.array(known["per_question"]).shape == (size, size)
    assert known["mean"][known["specs"].index(str(Pipeline.parse(known["default"])))] == 0.0
    assert known["layout"] == str(default_settings().layout)


def asked(count: int, family: str = "questions", **metadata: object) -> list[ExamQuery]:
    return [ExamQuery(f"{family}-{i}", "?", (), family, None, metadata) for i in range(count)]


def exam(favourite: int, size: int, gain: float = 0.3) -> Floats:
    rng = np.random.default_rng(5)
    scores = rng.uniform(0.3, 0.6, (size, 1)) + rng.normal(0, 0.05, (size, len(SPECS)))
    scores[:, favourite] += gain
    return np.asarray(np.clip(scores, 0, 1))


def test_verbatim_questions_never_choose() -> None:
    names = sorted(EVERY.keys() - {"heading_paraphrase"})
    queries = [query for name in names for query in asked(400 // len(names), name)]
    alone = recommend(SPECS, exam(1, len(queries)), queries)
    nothing = recommend(SPECS, np.zeros((0, len(SPECS))), ())
    assert alone.best == nothing.best != 1
    assert alone.means == pytest.approx(nothing.means)
    assert alone.real == 0 and alone.other == {}


def test_many_real_questions_overrule_the_prior() -> None:
    found = recommend(SPECS, exam(2, 300), asked(300))
    assert (found.best, found.real) == (2, 300)
    assert found.within > 0.99
    assert found.more is None


def test_repeated_questions_make_nothing_surer() -> None:
    scores = exam(1, 24, gain=0.05)
    single = [ExamQuery(f"{i}", "?", (Judgment(f"{i}.md"),)) for i in range(24)]
    often = [ExamQuery(f"{i}-{n}", "?", (Judgment(f"{i}.md"),)) for i in range(24) for n in range(10)]
    once, again = recommend(SPECS, scores, single), recommend(SPECS, np.repeat(scores, 10, axis=0), often)
    alone = recommend(SPECS, np.repeat(scores, 10, axis=0), asked(240))
    assert again.regret == pytest.approx(once.regret, rel=0.25)
    assert alone.regret < again.regret / 1.5


def test_a_handful_of_real_questions_does_not() -> None:
    few = recommend(SPECS, exam(2, 9), asked(9))
    assert (few.best, few.real) == (recommend(SPECS, np.zeros((0, len(SPECS))), ()).best, 0)


def test_the_choice_does_not_depend_on_which_configuration_is_the_reference() -> None:
    scores = exam(3, 60, 0.02)
    whole = recommend(SPECS, scores, asked(60))
    turned = recommend(SPECS[::-1], scores[:, ::-1], asked(60))
    assert len(SPECS) - 1 - turned.best == whole.best
    assert turned.within == pytest.approx(whole.within, abs=0.02)


def test_a_configuration_without_a_prior_needs_real_questions() -> None:
    specs = [*SPECS, str(Pipeline.parse("entity_overlap"))]
    found = recommend(specs, np.zeros((0, len(specs))), ())
    assert found.unknown == [4] and found.best != 4
    scores = np.concatenate([exam(0, 300, 0.0), exam(0, 300, 0.0)[:, :1] + 0.2], axis=1)
    assert recommend(specs, scores, asked(300)).best == 4


def test_the_text_says_what_how_sure_and_why() -> None:
    found = recommend(SPECS, exam(2, 300), asked(300))
    names = ["hybrid", "BM25", "dense", "RRF"]
    assert probability(names, found, found.best) == (
        "With more than 99% probability nothing in this table is better than dense by more than 1.5 points on real "
        "questions."
    )
    text = describe(names, found, 10)
    assert "300 real questions of this exam" in text
    offline = describe(["hybrid", "BM25", "dense", "RRF"], recommend(SPECS, np.zeros((0, 4)), ()), 10)
    assert "real questions on 10 other collections" in offline
    assert "questions cut from the documents do not choose" in offline


def test_paraphrased_headings_count_less_than_real_questions() -> None:
    scores = exam(2, 200, 0.05)
    written = recommend(SPECS, scores, asked(200, "heading_paraphrase"))
    real = recommend(SPECS, scores, asked(200))
    assert written.other == {"heading_paraphrase": 200}
    assert real.within >= written.within or real.best != written.best


def test_kind_may_be_given_or_not() -> None:
    scores = exam(0, 50)
    plain = evidence(scores)
    told = evidence(scores, Kind(np.ones(4), np.eye(4)))
    assert told.error == pytest.approx(plain.error + np.eye(4))
    assert told.bias.tolist() == [1.0] * 4


def _truths(rng: np.random.Generator, mean: Floats, covariance: Floats, count: int) -> Floats:
    return rng.multivariate_normal(mean, covariance, count)


# ---------------------------------------------------------------- composed configurations


def test_a_pipeline_is_composed_of_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    table = dict(prior._table())
    reranked, cross = Pipeline.parse(f"{DEFAULT} >> cross_encoder"), "cross_encoder"
    cross = str(reranked.rerank[0])
    table["effects"] = {cross: {"mean": 0.03, "spread": 0.02, "question_spread": 0.2}}
    monkeypatch.setattr(prior, "_table", lambda: table)
    specs = [SPECS[0], str(reranked), SPECS[3], f"{SPECS[3]} >> {cross}"]
    found = prior.known(specs)
    assert found.unknown == []
    assert found.belief.mean[1] == pytest.approx(0.03)
    assert found.belief.mean[3] == pytest.approx(found.belief.mean[2] + 0.03)
    spread = np.sqrt(np.diag(found.belief.covariance))
    assert spread[1] == pytest.approx(0.02, abs=1e-4)
    assert spread[3] > np.hypot(spread[2], 0.02)  # and the interplay


def test_an_unmeasured_reranker_is_unknown_but_its_pipeline_is_not() -> None:
    found = prior.known([SPECS[0], f"{SPECS[0]} >> cross_encoder(top=17)"])
    assert found.unknown == [1]
    assert found.belief.mean[1] == 0.0


def test_rows_of_another_layout_share_what_is_unknown_of_it() -> None:
    found = prior.known([SPECS[0], SPECS[0], SPECS[3]], ["", "whole", "whole"])
    assert found.unknown == [1, 2]
    assert found.belief.covariance[1, 2] == pytest.approx(0.05**2, rel=0.1)
    same = prior.known([SPECS[0], SPECS[3]], ["whole", "whole"])
    plain, gap = prior.known([SPECS[0], SPECS[3]]), np.array([1.0, -1.0])
    assert gap @ same.belief.covariance @ gap == pytest.approx(gap @ plain.belief.covariance @ gap, abs=1e-6)


def test_another_measure_makes_the_prior_wider() -> None:
    one, other = prior.known(SPECS), prior.known(SPECS, measure="R@10")
    assert np.diag(other.belief.covariance)[1] > 3 * np.diag(one.belief.covariance)[1]


def test_few_corpora_have_wide_tails() -> None:
    normal = Belief(np.zeros(1), np.eye(1)).draws()
    wide = Belief(np.zeros(1), np.eye(1), 4).draws()
    assert (abs(wide) > 3).mean() > 5 * (abs(normal) > 3).mean()


def test_a_tiny_gain_is_no_reason_to_leave_the_default() -> None:
    near = Belief(np.array([0.0, STAY / 2]), np.eye(2) * 1e-4)
    assert choose(near, 0.01).best == 1
    assert choose(near, 0.01, default=0).best == 0
    assert choose(Belief(np.array([0.0, 2 * STAY]), np.eye(2) * 1e-4), 0.01, default=0).best == 1
