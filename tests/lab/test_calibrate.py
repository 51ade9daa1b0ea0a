"""Calibrated thresholds: the arithmetic, the promise on made-up questions, `conditional`, and the command."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases import each
from exam_helpers import surefind
from helpers import Home
from rerank_helpers import Shelf
from surefind import Access, KnowledgeBase
from surefind.base import spec
from surefind.base.running import collecting
from surefind.base.types import Query
from surefind.engine.confidence.predictor import FILE, SavedThreshold, find_calibration, write_calibration
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.services import LocalServices
from surefind.kb.integrity import CHECKS, DamageError
from surefind.lab.calibrate import run as run_module
from surefind.lab.calibrate.report import ThresholdReport
from surefind.lab.calibrate.run import Evidence, ask, checked, choose, plan_of, sentence, success_of
from surefind.lab.exam.model import Exam, ExamQuery, Judgment
from surefind.lab.exam.store import ExamStore
from surefind.lab.measure.ranks import parse_measure
from surefind.lab.measure.statistics import wilson
from surefind.lab.measure.thresholds import (
    MIN_QUESTIONS,
    Threshold,
    chosen,
    first_failure,
    smallest,
    thresholds,
    z_of,
)
from surefind.testing import rankings_of

# ---------------------------------------------------------------- thresholds


def test_z_is_that_of_the_study() -> None:
    assert z_of(0.95) == pytest.approx(1.96, abs=1e-3)


def test_lower_bound_is_wilsons() -> None:
    confidences = np.linspace(1, 0, 100)
    success = np.ones(100, dtype=bool)
    success[[10, 40]] = False
    (tested,) = [t for t in thresholds(confidences, success) if t.skipped == 50]
    assert (tested.successes, tested.below) == (48, pytest.approx(confidences[49]))
    assert tested.low == pytest.approx(wilson(48, 50).low, abs=1e-4)


def test_thresholds_go_down_from_the_fewest_questions() -> None:
    tested = thresholds(np.random.default_rng(1).random(400), np.ones(400, dtype=bool))
    counts = [t.skipped for t in tested]
    assert counts == sorted(counts) and counts[0] >= MIN_QUESTIONS and counts[-1] == 400
    assert [t.below for t in tested] == sorted((t.below for t in tested), reverse=True)


def test_equal_confidences_are_skipped_together() -> None:
    tested = thresholds(np.array([1.0] * 60 + [0.5] * 40), np.ones(100, dtype=bool))
    assert [(t.below, t.skipped) for t in tested] == [(1.0, 60), (0.5, 100)]


def test_first_failure_ends_the_sequence() -> None:
    made = [Threshold(0.9, 100, 100, 0.96), Threshold(0.8, 150, 140, 0.88), Threshold(0.7, 300, 295, 0.96)]
    assert chosen(made, 0.9) == made[0]
    assert chosen(made[1:], 0.9) is None
    assert chosen([], 0.9) is None


def test_steps_that_cannot_pass_are_not_tested() -> None:
    few = Threshold(0.99, 32, 32, wilson(32, 32).low)
    assert few.low < 0.9
    many = Threshold(0.9, 100, 99, wilson(99, 100).low)
    assert chosen([few, many], 0.9) == many


def test_sequence_begins_with_a_share_of_the_questions() -> None:
    unlucky = Threshold(0.99, 50, 47, wilson(47, 50).low)
    rest = [Threshold(0.8, 150, 146, wilson(146, 150).low), Threshold(0.1, 400, 350, wilson(350, 400).low)]
    assert chosen([unlucky, *rest], 0.9) == rest[0]


def test_share_that_is_skipped_can_be_limited() -> None:
    made = [Threshold(1 - n / 100, n, n, wilson(n, n).low) for n in range(40, 101, 10)]
    assert chosen(made, 0.8) == made[-1]
    assert chosen(made, 0.8, most=0.5) == made[1]
    assert chosen(made, 0.8, most=0.3) is None


def test_eq_32_takes_the_smallest_threshold_that_passes() -> None:
    """Of 100 questions the 60 surest succeed, so Wilson's bound of 60/n decides how many of the others come along."""
    confidences = np.linspace(1, 0.01, 100)
    success = np.arange(100) < 60
    most = max(n for n in range(60, 101) if wilson(60, n).low >= 0.8)
    found = smallest(confidences, success, 0.8)
    assert found is not None and found.skipped == most and found.below == pytest.approx(confidences[most - 1])
    assert smallest(confidences, success, 0.8, most=0.5) is not None
    assert smallest(confidences, success, 0.8, most=0.29) is None  # fewer than 30 questions


def test_the_sequence_says_where_it_ended() -> None:
    made = [Threshold(0.9, 100, 100, 0.96), Threshold(0.8, 150, 140, 0.88), Threshold(0.7, 300, 295, 0.96)]
    assert first_failure(made, 0.9) == made[1]
    assert first_failure(made[:1], 0.9) is None


# ---------------------------------------------------------------- the promise


def made_up(seed: int, count: int, chance: Any) -> Evidence:
    """Questions with a confidence that is uniform; `chance` of it is the probability of success."""
    rng = np.random.default_rng(seed)
    sure = rng.random(count)
    success = rng.random(count) < chance(sure)
    before = success * 0.5
    features = np.column_stack([sure, rng.random(count)])
    return Evidence({"max": sure}, features, success, before, before + 0.2, np.arange(count))


@each("when", ["max", "predicted"])
def test_promise_holds_for_new_questions(when: Any) -> None:
    """The share of skipped questions that succeed is at least β in nearly all of 200 exams, in the population."""
    chance = lambda sure: 1 / (1 + np.exp(-8 * (sure - 0.3)))  # noqa: E731
    population = made_up(999, 50_000, chance)
    broken = used = 0
    for seed in range(200):
        evidence = made_up(seed, 300, chance)
        choice = choose(evidence, np.arange(300), when, 0.9, 0.95)
        if choice.threshold is not None:
            used += 1
            found = checked(population, np.arange(50_000), choice, 0.95)
            broken += found.success < 0.9
    assert used > 100
    assert broken <= 10  # 5% of 200


def test_smallest_threshold_without_correction_breaks_the_promise_more_often() -> None:
    """What the fixed sequence is for: of questions that all succeed with the probability β, none may be skipped."""
    chance = lambda sure: np.full_like(sure, 0.9)  # noqa: E731
    naive = corrected = 0
    for seed in range(200):
        evidence = made_up(seed, 600, chance)
        choice = choose(evidence, np.arange(600), "max", 0.9, 0.95)
        corrected += choice.threshold is not None
        naive += any(tested.keeps(0.9) for tested in choice.tested)
    assert corrected <= 10 < naive


def test_quality_of_skipped_questions_is_that_before() -> None:
    evidence = made_up(1, 200, lambda sure: sure > 0.5)
    choice = choose(evidence, np.arange(200), "max", 0.8, 0.95)
    found = checked(evidence, np.arange(200), choice, 0.95)
    skipped = evidence.confidences["max"] >= choice.below
    assert found.skipped == skipped.sum() > 0
    assert found.quality.conditional == pytest.approx(float((evidence.before + 0.2 * ~skipped).mean()))
    assert found.gain_kept == pytest.approx(1 - skipped.mean())


def test_success_is_that_of_the_gold() -> None:
    span, whole = Judgment("a.md", 0, 3), Judgment("a.md")
    assert str(success_of(Exam("e", (ExamQuery("q", "?", (span,)),)))) == "T5EM"
    assert str(success_of(Exam("e", (ExamQuery("q", "?", (span,)), ExamQuery("r", "?", (whole,)))))) == "Success@5"


# ---------------------------------------------------------------- conditional


class Sources(Shelf):
    """Passages that know where their ranking comes from."""

    path, corpus = "bm25 + dense >> convex", "abc"

    def retrieved(self, queries: Any) -> Any:
        return [RANKING, RANKING]


RANKING = rankings_of([([0, 1, 2], [0.9, 0.5, 0.1]), ([2, 1, 0], [0.6, 0.5, 0.1])])
QUERIES = [Query("gamma"), Query("alpha")]
PASSAGES = Sources("alpha beta", "beta", "gamma")
SAVED = SavedThreshold(
    name="quick",
    stage="shared_words",
    path=Sources.path,
    corpus="abc",
    when="max",
    below=0.8,
    predictor=None,
    learnt=("key",),
)


@pytest.fixture
def services(tmp_path: Path) -> LocalServices:
    return LocalServices(models_folder=tmp_path)


def reranked(services: LocalServices, saved: SavedThreshold, passages: Any = PASSAGES) -> tuple[list[int], str]:
    """The first passage of each query, and the note."""
    assert services.models_folder is not None
    stage = spec.make("rerank", "conditional(stage=shared_words, calibrated=quick)")
    write_calibration(services.models_folder, replace(saved, stage=str(spec.make("rerank", saved.stage))))
    with collecting() as collected:
        found = stage.rerank(QUERIES, RANKING, passages, 10, services)
    return [int(found.row(i)[0][0]) for i in range(2)], collected.text


@pytest.mark.usefixtures("toys")
def test_calibrated_threshold_decides(services: LocalServices) -> None:
    assert reranked(services, SAVED) == ([0, 0], "max under 0.8 for 1 of 2 queries")  # the second one is reranked


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"corpus": "abd"}, "the documents changed since"),
        ({"path": "bm25"}, "it was calibrated after bm25"),
        ({"stage": "cross_encoder"}, "it was calibrated for cross_encoder"),
        ({"below": None}, "no threshold of quick keeps its promise"),
    ],
)
def test_threshold_of_other_conditions_is_refused(services: LocalServices, change: dict[str, Any], reason: str) -> None:
    firsts, note = reranked(services, replace(SAVED, **change))
    assert firsts == [2, 0]  # both are reranked
    assert "every question is reranked" in note and reason in note


@pytest.mark.usefixtures("toys")
def test_without_knowing_the_stages_before_every_question_is_reranked(services: LocalServices) -> None:
    firsts, note = reranked(services, SAVED, Shelf("alpha beta", "beta", "gamma"))
    assert firsts == [2, 0] and "the stages before it are not known" in note


@pytest.mark.usefixtures("toys")
@each(("when", "below"), [("agreement", 1.1), ("raw", -1.0)])
def test_measures_of_the_retrievers_decide(when: str, below: float) -> None:
    stage = spec.make("rerank", f"conditional(stage=shared_words, when={when}, below={below})")
    found = stage.rerank(QUERIES, RANKING, PASSAGES, 10, LocalServices())
    assert [int(found.row(i)[0][0]) for i in range(2)] == ([2, 0] if below > 1 else [0, 2])


# ---------------------------------------------------------------- the command


@pytest.fixture
def asked(home: Home) -> Home:
    """Eighty documents, each with a word of its own, and two questions about each: by that word, and by common ones."""
    home.configure('[pipelines.words]\nretrieve = ["bm25"]\n[search]\npipeline = "words"\n')
    for i in range(80):
        home.write(f"docs/d{i:02}.md", f"# Page {i}\n\nThe code word{i}x opens the common door of page {i} at night.\n")
    home.sync("docs")
    queries = []
    with home.open() as kb:
        texts = {document.id: document.text for document in kb.documents(Access.owner())}
    for i, (key, text) in enumerate(sorted(texts.items())):
        at = text.index("word")
        gold = Judgment(key, at, text.index(" opens"), 1, text[at : at + 6])
        own = text[at : text.index(" opens")]
        queries += [
            ExamQuery(f"q{i}", f"what does {own} open", (gold,)),
            ExamQuery(f"r{i}", "the common door at night", (gold,)),
        ]
    ExamStore(home.folder / ".surefind" / "exams").save(Exam("asked", tuple(queries)))
    return home


def calibrated(home: Home, *more: str) -> Any:
    return surefind("calibrate", "shared_words", "--exam", "asked", "--beta", "0.8", *more, kb=home.folder)


@pytest.mark.usefixtures("toys")
def test_command_saves_a_threshold_that_searches_use(asked: Home) -> None:
    done = calibrated(asked, "--when", "max", "--name", "quick", "--json")
    assert done.code == 0, done.err
    made = json.loads(done.out)
    row = next(row for row in made["rows"] if row["when"] == "max")
    assert made["below"] is not None and row["kept"]
    assert 0.3 < row["held_out"]["skip_rate"] < 0.8  # the questions by the word of their own
    assert made["success"] == "T5EM" and len(made["rows"]) == 5
    with asked.open() as kb:
        assert kb.services.models_folder is not None
        saved = find_calibration(kb.services.models_folder, "quick")
        pipeline = Pipeline.parse(f"{made['path']} >> conditional(stage={made['stage']}, calibrated=quick)")
        assert saved.training_questions <= pipeline.rerank[0].training_questions(kb.services)  # type: ignore[attr-defined]
        notes = [_note(kb, pipeline, text) for text in ("what does word3x open", "the common door at night")]
    assert "not under" in notes[0] and re.search(r"max \S+, under", notes[1])
    asked.write("docs/new.md", "# New\n\nA new page.\n")
    asked.sync("docs")
    with asked.open() as kb:
        assert "the documents changed since" in _note(kb, pipeline, "what does word3x open")


def _note(kb: KnowledgeBase, pipeline: Pipeline, text: str) -> str:
    reader = kb.reader()
    run = pipeline.run([Query(text)], 5, reader.reading(Access.owner()))
    return next(entry.note for entry in run.trace if entry.stage == "rerank")


@pytest.mark.usefixtures("toys")
def test_command_says_why_it_refuses_what_eq_32_would_take(asked: Home) -> None:
    """The surest questions fail and the others succeed: the sequence ends at once, and eq. 32 has a threshold."""
    strict = made_refusal(asked, "sequence")
    lucky = made_refusal(asked, "eq32")
    assert strict.below is None and strict.eq32 is not None and strict.eq32.below == lucky.below is not None
    told = sentence(strict)
    assert "Equation 32 of the study would take" in told and "--rule eq32 takes it" in told and "fails" in told
    assert "are not reranked" in sentence(lucky)


def made_refusal(asked: Home, rule: str) -> ThresholdReport:
    with asked.open() as kb:
        exam = ExamStore(kb.data / "exams").load("asked")
        plan = plan_of(Pipeline.parse("bm25"), "shared_words", exam, success_of(exam), parse_measure("nDCG@10"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run_module, "ask", lambda *given: _unlucky(ask(*given)))
            return run_module.calibrate(kb, plan, "quick", "max", 0.6, 0.95, 1.0, None, rule)  # type: ignore[arg-type]


def _unlucky(asked: Any) -> Any:
    """The same questions, of which the surest fifth fails and all others succeed."""
    count = len(asked.queries)
    sure = np.random.default_rng(3).permutation(count) / count
    evidence = replace(asked.evidence, confidences=dict.fromkeys(asked.evidence.confidences, sure), success=sure < 0.8)
    return replace(asked, evidence=evidence)


@pytest.mark.usefixtures("toys")
def test_command_shows_the_thresholds_and_the_pipeline(asked: Home) -> None:
    done = calibrated(asked, "--when", "max")
    assert done.code == 0, done.err
    for part in ("predicted", "agreement", "tested from the largest down", "was kept", "calibrated=shared_words-asked"):
        assert part in done.out


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--beta", "1.5"), "--beta must be between 0 and 1, not 1.5."),
        (("--confidence", "0"), "--confidence must be between 0 and 1, not 0."),
        (("--most-skipped", "0"), "--most-skipped must be above 0 and at most 1, not 0."),
        (("--when", "luck"), "There is no measure of confidence 'luck'."),
        (("--rule", "eq31"), "There is no rule 'eq31' to choose a threshold. Did you mean eq32?"),
        (("--name", "a/b"), "cannot be called 'a/b'"),
        (("--pipeline", "bm25 >> shared_words"), "The pipeline already reranks"),
    ],
)
def test_wrong_options_are_named(asked: Home, more: tuple[str, ...], message: str) -> None:
    done = calibrated(asked, *more)
    assert done.code == 2 and message in done.err


@pytest.mark.usefixtures("toys")
def test_too_few_questions_are_refused(asked: Home) -> None:
    store = ExamStore(asked.folder / ".surefind" / "exams")
    exam = store.load("asked")
    store.save(replace(exam, queries=exam.queries[:20]))
    done = calibrated(asked)
    assert done.code == 2 and "needs at least 30 in each half" in done.err


@pytest.mark.usefixtures("toys")
def test_doctor_finds_a_damaged_calibration(asked: Home) -> None:
    assert calibrated(asked, "--when", "max", "--name", "quick").code == 0
    with asked.open() as kb:
        assert CHECKS["trained models"](kb) == "1 trained models, prompts and calibrations match their checksums"
        path = kb.data / "models" / "quick" / FILE
        path.write_text(path.read_text(encoding="utf-8").replace('"beta": 0.8', '"beta": 0.1'), encoding="utf-8")
        with pytest.raises(DamageError, match="its checksum differs"):
            CHECKS["trained models"](kb)
