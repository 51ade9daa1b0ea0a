"""A slow configuration in the default comparison: asked a drawn part of the questions, and estimated from it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from exam_helpers import query
from helpers import Home
from report_helpers import bench_report, row
from rerank_helpers import tiny_cross_encoder
from surefind.bench.check import check_report, read_baseline
from surefind.bench.cost import quote_for
from surefind.bench.drawn import SAMPLE_QUESTIONS, USUAL, QuestionSample, drawn_part
from surefind.bench.engine import Bench
from surefind.bench.files import markdown, write_files
from surefind.bench.plan import Contender, Plan, parse_measures
from surefind.bench.recommendation import recommend
from surefind.bench.report import ExamFacts
from surefind.bench.run import run_bench
from surefind.bench.terminal import show
from surefind.bench.timing import Timing
from surefind.bench.verdict import _about_choice, fastest
from surefind.exam.model import Exam, Judgment
from surefind.exam.split import held_out
from surefind.measure.statistics import Interval, bootstrap
from surefind.search.pipeline import Pipeline
from surefind.settings.template import BUILT_IN

SOME = "cash vault wire teller loan audit branch deposit ledger notary".split()
QUERIES = tuple(
    query(f"q{i}", f"{one} {other}", Judgment(f"{one}.md"))
    for i, (one, other) in enumerate((one, other) for one in SOME for other in SOME if one < other)
)
EXAM = Exam("questions", QUERIES)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "kb")
    for i, word in enumerate(SOME):
        made.write(f"docs/{word}.md", f"the {word} of {SOME[i - 1]} and {SOME[i - 2]}")
    made.sync("docs")
    return made


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    model = json.dumps(str(tiny_cross_encoder(tmp_path / "tiny")))
    slow = Pipeline.parse(f"bm25 >> cross_encoder(model={model}, blend=1.0)", "slow")
    rows = (Contender("bm25", Pipeline.parse("bm25")), Contender("slow", slow, drawn=True))
    return Plan(rows, EXAM, parse_measures(["nDCG@10", "R@5"]))


# ---------------------------------------------------------------- the arithmetic


def test_the_same_questions_are_drawn_from_both_halves() -> None:
    part = drawn_part(QUERIES)
    assert part is not None and abs(len(part) - SAMPLE_QUESTIONS) <= 1
    shuffled = drawn_part(QUERIES[::-1])
    assert shuffled is not None and shuffled.asked[::-1].tolist() == part.asked.tolist()
    out = np.array(held_out(QUERIES))
    assert part.asked[out].sum() == part.asked[~out].sum() == SAMPLE_QUESTIONS // 2


def test_a_short_exam_is_asked_as_a_whole() -> None:
    assert drawn_part(QUERIES[:4]) is None


def test_the_estimate_is_the_mean_before_and_the_mean_difference() -> None:
    asked = np.array([True, True, False, False])
    part = QuestionSample(asked, (np.arange(4),))
    before, after = np.array([0.2, 0.4, 0.6, 0.8]), np.array([0.3, 0.7, np.nan, np.nan])
    values = part.estimated(before, after)
    assert values.mean() == pytest.approx(0.5 + (0.1 + 0.3) / 2)
    spread = np.sqrt((0.1**2 + 0.1**2 + 8 * USUAL**2) / (1 + 8))
    assert values[0] == pytest.approx(0.2 + 0.2 - 4 / 2 * spread)
    assert values[2:] - before[2:] == pytest.approx([0.2, 0.2])


def test_intervals_of_the_estimate_hold_its_truth() -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(200):
        before = rng.uniform(size=300)
        after = before + rng.normal(0.05, 0.1, size=300)
        asked = np.zeros(300, np.bool_)
        asked[rng.choice(300, 20, replace=False)] = True
        values = QuestionSample(asked, (np.arange(300),)).estimated(before, np.where(asked, after, np.nan))
        (gain,) = bootstrap((values - before)[:, None], resamples=400)
        hits += gain.low <= 0.05 <= gain.high
    assert 0.88 <= hits / 200 <= 0.99


def test_equal_scores_of_a_few_questions_prove_nothing() -> None:
    specs = [str(Pipeline.parse(text)) for text in (BUILT_IN["hybrid"], BUILT_IN["careful"])]
    part = drawn_part(QUERIES)
    assert part is not None
    same = np.linspace(0, 1, len(QUERIES))
    estimated = part.estimated(same, same)
    assert estimated.mean() == pytest.approx(same.mean())
    (gain,) = bootstrap((estimated - same)[:, None])
    assert gain.low < -0.03 and gain.high > 0.03
    few = recommend(specs, np.column_stack([same, estimated]), QUERIES)
    every = recommend(specs, np.column_stack([same, same]), QUERIES)
    assert every.means[1] < few.means[1] < 0.0096  # the prior


# ---------------------------------------------------------------- the report


def test_a_drawn_row_is_paired_and_estimated(home: Home, plan: Plan) -> None:
    part = drawn_part(QUERIES)
    assert part is not None
    with home.open() as kb:
        report = run_bench(kb, plan, "surefind bench").report
        whole = Plan(tuple(Contender(one.name, one.pipeline) for one in plan.contenders), EXAM, plan.measures)
        every = run_bench(kb, whole, "surefind bench").report
    fast, slow = report.rows
    assert (fast.asked, slow.asked) == (len(QUERIES), len(part))
    assert [score is not None for score in slow.scores] == part.asked.tolist()
    full = every.rows[1].scores
    assert [one for one in slow.scores if one is not None] == [full[i] for i in part.places]
    assert slow.reranking[0].queries == len(part)
    assert slow.latency_ms.stages["cross_encoder"].p50 > 0
    assert report.winner == "bm25" and "Of the configurations that were asked every question" in report.verdict
    assert f"Asked {len(part)} of {len(QUERIES)} questions" in report.verdict
    assert "surefind bench --exam questions -p bm25 -p slow" in report.verdict


def test_the_drawn_row_says_so_everywhere(home: Home, plan: Plan, tmp_path: Path) -> None:
    with home.open() as kb:
        report = run_bench(kb, plan, "surefind bench").report
    screen = io.StringIO()
    show(report, Console(file=screen, width=200))
    said = f"slow, asked {report.rows[1].asked} of {len(QUERIES)}"
    assert said in screen.getvalue() and said in markdown(report)
    assert write_files(report, tmp_path / "report").is_file()


def test_a_drawn_row_comes_after_those_that_were_asked_everything() -> None:
    rows = [
        row(name, asked=asked, measures={"nDCG@10": Interval(mean, 0.0, 1.0)})
        for name, asked, mean in (("careful", 6, 1.0), ("words", 90, 0.7), ("hybrid", 90, 0.8))
    ]
    report = bench_report(*rows, exam=ExamFacts(name="e", version=1, queries=90, families={}))
    assert [one.name for one in report.ordered] == ["hybrid", "words", "careful"]


def test_a_drawn_row_is_not_checked_against_a_baseline(home: Home, plan: Plan, tmp_path: Path) -> None:
    with home.open() as kb:
        report = run_bench(kb, plan, "surefind bench").report
    write_files(report, tmp_path / "report")
    checked = check_report(report, read_baseline(tmp_path / "report" / "report.json"))
    assert [row.name for row in checked.rows] == ["bm25"] and not checked.failed


def test_the_quote_counts_the_drawn_questions(home: Home, plan: Plan) -> None:
    part = drawn_part(QUERIES)
    assert part is not None
    with home.open() as kb:
        minutes = quote_for(Bench(kb), plan).minutes
    assert 60 * minutes == pytest.approx(len(part), abs=1.5)  # about a second each


# ---------------------------------------------------------------- the recommendation


@pytest.mark.parametrize("took", [6.0, 90.0, 110.0, 700.0])
def test_measured_times_do_not_decide_whether_a_reranker_is_worth_it(took: float) -> None:
    specs = [str(Pipeline.parse(text)) for text in (BUILT_IN["hybrid"], BUILT_IN["careful"])]
    before = np.full(len(QUERIES), 0.5)
    found = recommend(specs, np.column_stack([before, before]), QUERIES)
    times = {i: Timing(p50, p50, p50, p50, p50, {}) for i, p50 in enumerate((5.0, took))}
    assert found.best == 1 and fastest(found, times, [False, True]) == 0


@pytest.mark.parametrize(("gain", "chosen"), [(0.0, 0), (0.4, 1)])
def test_a_slow_row_must_gain_more_than_the_margin(gain: float, chosen: int) -> None:
    specs = [str(Pipeline.parse(text)) for text in (BUILT_IN["hybrid"], BUILT_IN["careful"])]
    before = np.full(len(QUERIES), 0.5)
    found = recommend(specs, np.column_stack([before, before + gain]), QUERIES)
    times = {i: Timing(p50, p50, p50, p50, p50, {}) for i, p50 in enumerate((5.0, 700.0))}
    reranked = [False, True]
    assert found.best == 1 and fastest(found, times, reranked) == chosen
    text = _about_choice(list(BUILT_IN), found, chosen, times, reranked)
    assert text.startswith(f"Recommendation: {list(BUILT_IN)[chosen]}.") and "more than ten times as long" in text
    assert ("surefind use careful" in text) == (chosen == 0)
