"""Who won, what is a tie, what to take; and the gate that compares with an earlier report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cases import each
from report_helpers import bench_report, row
from surefind.base.disk.sealed import read_sealed, write_sealed
from surefind.base.errors import UsageError
from surefind.lab.bench.gate import CheckResult, check_report, read_baseline, save_baseline
from surefind.lab.bench.latency import Timing
from surefind.lab.bench.recommendation import DefaultRow, Verdict, decide, recommend
from surefind.lab.bench.report import BenchReport
from surefind.lab.exam.model import ExamQuery
from surefind.lab.measure.statistics import Interval, bootstrap, compare_all

RNG = np.random.default_rng(7)
BASE = RNG.random(80)


def timing(p50: float, noise: float = 0.0) -> Timing:
    return Timing(p50, p50, p50, p50 - noise, p50 + noise, {})


def verdict(
    latency: list[float | None], *columns: NDArray[np.float64], noise: float = 0.0, reranked: Sequence[bool] = ()
) -> Verdict:
    """The verdict on real questions with these scores; the first column is that of the default."""
    scores = np.stack(columns, axis=1)
    halves = [i % 2 == 1 for i in range(len(scores))]
    queries = [ExamQuery(str(i), "?", ()) for i in range(len(scores))]
    return decide(
        names=list("abcdef"[: len(columns)]),
        measure="nDCG@10",
        scores=scores,
        held_out=halves,
        comparisons=compare_all(scores),
        intervals=bootstrap(scores, 200),
        held_out_intervals=bootstrap(scores[np.array(halves)], 200),
        latency={i: timing(p50, noise) for i, p50 in enumerate(latency) if p50 is not None},
        advice=recommend(scores, queries, DefaultRow(0, measured=True)) if len(columns) > 1 else None,
        reranked=reranked,
    )


def noisy(shift: float, seed: int) -> NDArray[np.float64]:
    return BASE + shift + np.random.default_rng(seed).normal(0, 0.1, len(BASE))


# ---------------------------------------------------------------- verdict


def test_clear_winner_has_no_ties() -> None:
    found = verdict([1, 1, 1], noisy(0, 1), noisy(0.5, 2), noisy(0, 3))
    assert (found.winner, found.ties, found.recommended) == (1, (), 1)
    first, second = found.text.split("\n")
    assert first == "Use b."
    assert re.match(
        r"Over your 80 real questions b scores \d\d\.\d points \[.*\] more than a, the default\. On eleven ", second
    )
    (exam,) = found.details
    assert exam.startswith("On this exam: b is best (nDCG@10 ")
    assert "It is significantly better than all 2 others." in exam


def test_faster_configuration_that_is_as_good_is_taken() -> None:
    found = verdict([50.0, 10.0], BASE, BASE)
    assert found.recommended == 1
    assert found.text.split("\n") == [
        "Use b.",
        "Over your 80 real questions a scores only 0.0 points more (at most 0.0), and its searches take more than "
        "twice as long as with b.",
    ]
    assert found.details[0] == (
        "a scores 0.0 points of nDCG@10 more than b, and a search takes more than twice as long as with b. If that is "
        "no problem: surefind use a."
    )


@each("load", [1.0, 1.3, 4.0])
def test_a_slower_machine_says_the_same_words(load: float) -> None:
    assert verdict([load * 50, load * 10], BASE, BASE).text == verdict([50.0, 10.0], BASE, BASE).text


def test_no_significant_difference_is_not_as_good() -> None:
    """Twelve questions: the slower configuration leads by far, but nothing is significant after Holm."""
    rng = np.random.default_rng(3)
    base = rng.random(12) / 2
    columns = [base + 0.3 + rng.normal(0, 0.25, 12), *(base + rng.normal(0, 0.25, 12) for _ in range(5))]
    found = verdict([50.0, *[10.0] * 5], *columns)
    assert found.winner == 0 and 5 in found.ties
    assert found.recommended == 0


def test_faster_configuration_that_is_worse_is_not_taken() -> None:
    assert verdict([50.0, 10.0], noisy(0.5, 1), noisy(0, 2)).recommended == 0


@each(
    ("best", "other", "taken"),
    [
        (9.7, 8.6, False),  # a demo recommended another row for this
        (12.0, 3.0, False),  # four times as fast, and nobody notices
        (29.0, 10.0, False),
        (31.0, 10.0, True),
        (300.0, 250.0, False),  # less than a fifth
        (300.0, 230.0, True),
    ],
)
def test_a_saving_counts_if_somebody_notices_it(best: float, other: float, taken: bool) -> None:
    assert verdict([best, other], BASE, BASE).recommended == taken


def test_latency_within_the_noise_of_timings_is_not_lower() -> None:
    assert verdict([80.0, 50.0], BASE, BASE, noise=10).recommended == 1
    assert verdict([80.0, 50.0], BASE, BASE, noise=16).recommended == 0


@each("took", [6.0, 90.0, 110.0, 700.0])
@each(("gain", "chosen"), [(0.01, 0), (0.4, 1)])
def test_measured_times_do_not_decide_whether_a_reranker_is_worth_it(took: float, gain: float, chosen: int) -> None:
    found = verdict([5.0, took], BASE, BASE + gain, reranked=[False, True])
    assert found.recommended == chosen
    price = found.details[0]
    assert price.startswith(f"b scores {100 * gain:.1f} points of nDCG@10 more than a, and a search takes ")
    assert ("surefind use b" in price) == (chosen == 0)


@each("first", [40.0, 42.0, 44.0])
def test_of_rows_that_are_about_as_fast_the_better_one_is_taken(first: float) -> None:
    assert verdict([100.0, first, 42.0], BASE + 0.002, BASE + 0.001, BASE).recommended == 1


def test_without_latencies_the_best_is_taken() -> None:
    assert verdict([None, None], BASE, BASE).recommended == 0


def test_too_few_questions_are_called_too_few() -> None:
    found = verdict([1.0] * 6, *(noisy(0.0, seed)[:30] for seed in range(6)))
    assert re.search(r"About \d+ real questions would show a gain of 1\.5 points\.", found.details[0])


def test_single_contender_is_not_called_best() -> None:
    found = verdict([1.0], BASE)
    assert (found.winner, found.ties) == (0, ())
    assert "There is no other configuration to compare it with." in found.text


def test_winner_that_beats_nobody_is_not_called_better() -> None:
    assert "but its lead is not significant" in verdict([1, 1], BASE, BASE).details[-1]


def test_verdict_says_what_picking_on_one_half_gives_on_the_other() -> None:
    found = verdict([1, 1], noisy(0.5, 1), noisy(0, 2))
    assert "The best on one half of the questions, a, scores" in found.details[-1]


def test_long_list_of_ties_is_cut() -> None:
    assert "b, c, d, e and 1 more" in verdict([1] * 6, *[BASE] * 6).details[-1]


# ---------------------------------------------------------------- the gate


def report(
    scores: NDArray[np.float64], name: str = "words", primary: str = "nDCG@10", aliases: Sequence[str] = ()
) -> BenchReport:
    count = len(scores)
    measures = {primary: Interval(0.5, 0.4, 0.6)}
    made = row(name, aliases=tuple(aliases), measures=measures, scores=tuple(scores.tolist()))
    return bench_report(
        primary=primary,
        rows=(made,),
        query_ids=tuple(f"q{i}" for i in range(count)),
        query_texts=tuple(f"what about {i}?" for i in range(count)),
        query_documents=((),) * count,
        query_clusters=tuple(range(count)),
    )


def checked(folder: Path, before: BenchReport, after: BenchReport) -> CheckResult:
    save_baseline(before, folder / "baseline.json")
    return check_report(after, read_baseline(folder / "baseline.json"))


def test_same_report_passes(tmp_path: Path) -> None:
    assert not checked(tmp_path, report(BASE), report(BASE)).failed


def test_row_is_found_by_its_aliases_in_either_report(tmp_path: Path) -> None:
    named, renamed = report(BASE, "words"), report(BASE - 0.2, "BM25", aliases=["words"])
    assert [row.name for row in checked(tmp_path, named, renamed).rows] == ["words"]
    assert checked(tmp_path, named, renamed).failed
    assert [row.name for row in checked(tmp_path, renamed, named).rows] == ["words"]


def test_degraded_report_fails(tmp_path: Path) -> None:
    assert checked(tmp_path, report(BASE + 0.2), report(BASE)).failed


def test_better_report_passes(tmp_path: Path) -> None:
    assert not checked(tmp_path, report(BASE), report(BASE + 0.2)).failed


@each("seed", range(5))
def test_noise_passes(tmp_path: Path, seed: int) -> None:
    noise = np.random.default_rng(seed).normal(0, 0.05, len(BASE))
    assert not checked(tmp_path, report(BASE), report(BASE + noise - noise.mean() - 0.002)).failed


def test_one_question_that_got_worse_passes(tmp_path: Path) -> None:
    worse = BASE.copy()
    worse[3] = 0
    assert not checked(tmp_path, report(BASE), report(worse)).failed


def test_questions_about_one_document_that_got_worse_pass(tmp_path: Path) -> None:
    worse = BASE.copy()
    worse[:20] -= 0.2
    after = report(worse)
    assert checked(tmp_path, report(BASE), after).failed
    alike = replace(after, query_clusters=(*[0] * 20, *range(1, len(BASE) - 19)))
    assert not checked(tmp_path, report(BASE), alike).failed


def test_only_questions_of_both_reports_are_compared(tmp_path: Path) -> None:
    before, after = report(BASE + 0.2), report(BASE[:50])
    assert checked(tmp_path, before, after).rows[0].questions == 50


def test_another_question_under_the_same_id_is_not_compared(tmp_path: Path) -> None:
    before = report(BASE)
    texts = ("what is new?", *before.query_texts[:-1])  # a row was inserted, the ids are positions
    after = replace(report(np.array([0.0, *BASE[:-1]])), query_texts=texts)
    found = checked(tmp_path, before, after)
    assert found.rows[0].questions == len(BASE) - 1
    assert found.rows[0].before == pytest.approx(found.rows[0].after) and not found.failed


def test_questions_of_the_same_words_are_paired_by_their_ids(tmp_path: Path) -> None:
    before = replace(report(BASE), query_texts=("when?",) * len(BASE))
    after = replace(report(BASE[::-1]), query_texts=before.query_texts, query_ids=before.query_ids[::-1])
    found = checked(tmp_path, before, after)
    assert (found.rows[0].questions, found.rows[0].p) == (len(BASE), 1)


def test_question_that_is_asked_twice_on_one_side_is_paired_by_its_id(tmp_path: Path) -> None:
    before = report(BASE)
    texts = before.query_texts
    after = replace(before, query_texts=(texts[0], texts[0], *texts[2:]))
    assert checked(tmp_path, before, after).rows[0].questions == len(BASE) - 1


def test_check_says_which_configuration_got_worse(tmp_path: Path) -> None:
    text = str(checked(tmp_path, report(BASE + 0.2), report(BASE)))
    assert "Compared on 80 questions" in text and "WORSE words: " in text


@each("after", [report(BASE, name="other"), report(BASE, primary="R@5"), replace(report(BASE[:0]), rows=())])
def test_nothing_in_common_is_refused(tmp_path: Path, after: BenchReport) -> None:
    with pytest.raises(UsageError, match=r"in common with this run\. Write a new baseline"):
        checked(tmp_path, report(BASE), after)


@each("text", ["", "[]", "{}", '{"rows": [{}], "query_ids": []}'])
def test_file_that_is_no_report_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "baseline.json").write_text(text, encoding="utf-8")
    with pytest.raises(
        UsageError, match=r"baseline\.json is damaged .*Write a baseline with: surefind bench --save FILE"
    ):
        read_baseline(tmp_path / "baseline.json")


def test_missing_baseline_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"nope\.json cannot be read .*Write a baseline with: surefind bench --save FILE"
    ):
        read_baseline(tmp_path / "nope.json")


def test_baseline_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    save_baseline(report(BASE), path)
    write_sealed(path, {**read_sealed(path), "format": 0})
    with pytest.raises(UsageError, match=r"its format is 0, not 3.*Write a baseline with: surefind bench --save FILE"):
        read_baseline(path)
