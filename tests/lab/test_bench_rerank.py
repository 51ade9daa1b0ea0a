"""Rerankers in a benchmark: cached, counted, timed, and what they moved."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import toy_stages
from exam_helpers import query
from helpers import Home
from rerank_helpers import tiny_cross_encoder
from surefind import Access, KnowledgeBase, Pipeline
from surefind.base.errors import MissingPartError, SurefindError
from surefind.base.types import Query, Rankings
from surefind.engine.inference import cross_encoder as rerank_onnx
from surefind.engine.search.pipeline import PipelinePassages
from surefind.lab.bench.cost import quote_for
from surefind.lab.bench.engine import Bench
from surefind.lab.bench.files import markdown
from surefind.lab.bench.latency import Timing
from surefind.lab.bench.plan import Plan, from_texts, parse_measures
from surefind.lab.bench.report import MeanWords
from surefind.lab.bench.reranking import Reranking, stacked, swaps, top_changed
from surefind.lab.bench.run import run_bench
from surefind.lab.bench.terminal import show
from surefind.lab.exam.model import Exam, Judgment
from surefind.testing import rankings_of

DOCUMENTS = {
    "vault": "two officer opens the vault and the vault and the vault",
    "cash": "cash cash cash cash filler",
    "report": "the report of cash is filler filler filler filler filler filler filler",
    "holiday": "holiday is a deadline filler",
    "wire": "wire transfer limit of two days",
}
EXAM = Exam(
    "e",
    (
        query("q1", "cash report", Judgment("report.md")),
        query("q2", "the vault 24", Judgment("vault.md")),
        query("q3", "cash", Judgment("report.md")),
        query("q4", "deadline holiday", Judgment("holiday.md")),
    ),
)


def passages_of(kb: KnowledgeBase) -> PipelinePassages:
    return PipelinePassages(Pipeline.parse("bm25"), kb.reader().reading(Access.owner()))


def known(kb: KnowledgeBase, rankings: Rankings) -> Rankings:
    """Rankings written with places, in the ids of a knowledge base."""
    ids = kb.reader().view.spans().ids
    return replace(rankings, ids=np.where(rankings.ids < 0, -1, ids[rankings.ids]))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "kb")
    for name, text in DOCUMENTS.items():
        made.write(f"docs/{name}.md", text)
    made.sync("docs")
    return made


@pytest.fixture
def model(tmp_path: Path) -> str:
    return json.dumps(str(tiny_cross_encoder(tmp_path / "tiny")))


def plan_of(*texts: str) -> Plan:
    return Plan(tuple(from_texts(texts, {})), EXAM, parse_measures(["nDCG@10", "R@5"]))


def test_blends_are_compared_for_one_reading(home: Home, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    run = rerank_onnx.OnnxCrossEncoder._run
    monkeypatch.setattr(rerank_onnx.OnnxCrossEncoder, "_run", lambda self, pair: read.append(1) or run(self, pair))
    monkeypatch.setattr(Bench, "latency", lambda self, plan: [Timing(1.0, 1.0, 1.0, 1.0, 1.0, {})] * 4)
    texts = ["bm25", f"bm25 >> cross_encoder(model={model}, blend=[0, 0.5, 1])"]
    with home.open() as kb:
        report = run_bench(kb, plan_of(*texts), "").report
        first = len(read)
        again = run_bench(kb, plan_of(*texts), "", fresh=True).report
    scores = [row.measures["nDCG@10"].mean for row in report.rows]
    assert scores[1] == scores[0]  # blend 0 leaves the order as it is
    assert 0 < first <= sum(len(DOCUMENTS) for _ in EXAM.queries)  # a pair once, not three times
    assert len(read) == first
    assert [row.scores for row in again.rows] == [row.scores for row in report.rows]


def test_rerankings_are_kept_and_known_by_what_was_given(home: Home, toys: None) -> None:
    calls: list[int] = []
    real = toy_stages.SharedWords.rerank

    def counting(self: Any, queries: Sequence[Query], *rest: Any) -> Rankings:
        calls.append(len(queries))
        return real(self, queries, *rest)

    with pytest.MonkeyPatch.context() as patch, home.open() as kb:
        patch.setattr(toy_stages.SharedWords, "rerank", counting)
        bench = Bench(kb)
        rerank = Reranking(passages_of(kb), kb.services, bench.cache, "corpus", "exam")
        queries = [Query("cash report"), Query("vault")]
        given = known(kb, rankings_of([([0, 1, 2], [3.0, 2.0, 1.0]), ([4], [1.0])]))
        stage = toy_stages.SharedWords()
        first = rerank.run(stage, queries, given, 10, lambda done, total: None)
        second = rerank.run(stage, queries, given, 10, lambda done, total: None)
        assert calls == [2]
        assert np.array_equal(first.after.ids, second.after.ids)
        other = replace(given, scores=given.scores * 2)
        rerank.run(stage, queries, other, 10, lambda done, total: None)
        assert calls == [2, 2]


class Sometimes(toy_stages.SharedWords):
    """Fails for batches that hold a certain question."""

    def rerank(self, queries: Sequence[Query], *rest: Any) -> Rankings:
        if any("vault" in q.text for q in queries):
            raise SurefindError("The vault is shut.")
        return super().rerank(queries, *rest)


def test_failures_are_counted_and_tried_again_next_time(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefind.lab.bench.reranking._BATCH", 2)
    with home.open() as kb:
        bench = Bench(kb)
        rerank = Reranking(passages_of(kb), kb.services, bench.cache, "corpus", "exam")
        given = known(kb, rankings_of([([0, 1, 2], [3.0, 2.0, 1.0])] * 4))
        texts = [Query(text) for text in ("cash report", "cash", "vault", "cash")]
        step = rerank.run(Sometimes(), texts, given, 10, lambda done, total: None)
        assert (step.fell_back, step.why) == (2, "The vault is shut.")
        assert step.after.ids[2:].tolist() == given.ids[2:].tolist()
        assert step.after.ids[0].tolist() != given.ids[0].tolist()
        assert bench.cache.rankings(rerank.key(Sometimes(), given, 10)) is None


def test_a_service_that_is_down_is_not_asked_for_every_batch(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefind.lab.bench.reranking._BATCH", 1)
    asked: list[int] = []

    class Down(toy_stages.SharedWords):
        def rerank(self, queries: Sequence[Query], *rest: Any) -> Rankings:
            asked.append(1)
            raise SurefindError("Nobody answers.")

    with home.open() as kb:
        bench = Bench(kb)
        rerank = Reranking(passages_of(kb), kb.services, bench.cache, "corpus", "exam")
        given = known(kb, rankings_of([([0, 1], [3.0, 2.0])] * 6))
        step = rerank.run(Down(), [Query("cash")] * 6, given, 10, lambda done, total: None)
    assert (len(asked), step.fell_back, step.why) == (2, 6, "Nobody answers.")


def test_failing_reranker_is_a_problem_of_the_report(home: Home, toys: None) -> None:
    with home.open() as kb:
        report = run_bench(kb, plan_of("bm25", "bm25 >> failing"), "").report
        again = run_bench(kb, plan_of("bm25", "bm25 >> failing"), "")
    (problem,) = report.problems
    assert problem == (
        "bm25 >> failing: failing failed for 4 questions, which kept the ranking before it (The model did not answer.)"
    )
    assert report.rows[0].scores == report.rows[1].scores
    assert again.outcome is not None  # a report with a hole in it is not kept
    assert problem in markdown(report)


def test_reranker_that_is_not_set_up_stops_the_benchmark(home: Home) -> None:
    with home.open() as kb, pytest.raises(MissingPartError, match="no cross-encoder 'nowhere'"):
        run_bench(kb, plan_of("bm25 >> cross_encoder(model=nowhere)"), "")


def test_quote_counts_the_time_of_rerankers_that_run_here(
    home: Home, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reranking, "seconds", lambda self, reranker, query, chunks: 30.0)
    with home.open() as kb:
        bench = Bench(kb)
        plain = quote_for(bench, plan_of("bm25")).minutes
        one = quote_for(bench, plan_of(f"bm25 >> cross_encoder(model={model})")).minutes
        blends = quote_for(bench, plan_of(f"bm25 >> cross_encoder(model={model}, blend=[0, 0.5, 1])")).minutes
    assert one - plain == pytest.approx(2.0, abs=0.1)  # 4 questions of 30 s
    assert blends - plain == pytest.approx(2.0, abs=0.1)  # read once


def test_time_of_a_reranker_is_tried_on_passages_of_the_corpus(home: Home, model: str) -> None:
    from surefind.base import spec

    with home.open() as kb:
        bench = Bench(kb)
        rerank = Reranking(passages_of(kb), kb.services, bench.cache, "corpus", "exam")
        stage = spec.make("rerank", f"cross_encoder(model={model})")
        assert 0 < rerank.seconds(stage, Query("cash"), kb.reader().view.spans().ids) < 60
        missing = spec.make("rerank", "cross_encoder(model=nowhere)")
        assert rerank.seconds(missing, Query("cash"), kb.reader().view.spans().ids) == 0


# ---------------------------------------------------------------- what moved


def test_swaps_count_places_that_hold_another_passage() -> None:
    before = rankings_of([([1, 2, 3], [3.0, 2.0, 1.0]), ([1, 2], [2.0, 1.0]), ([], []), ([7], [1.0])])
    after = rankings_of([([2, 1, 3], [3.0, 2.0, 1.0]), ([1, 2], [2.0, 1.0]), ([], []), ([8], [1.0])])
    assert swaps(before, after).tolist() == [2, 0, 0, 1]
    assert top_changed(before, after).tolist() == [True, False, False, True]


def test_swaps_look_at_the_first_ten_places_only() -> None:
    order = list(range(20))
    late = [*order[:10], *reversed(order[10:])]
    scores = [float(-i) for i in order]
    assert swaps(rankings_of([(order, scores)]), rankings_of([(late, scores)])).tolist() == [0]
    assert swaps(rankings_of([(order, scores)]), rankings_of([(order[::-1], scores)])).tolist() == [10]


def test_batches_of_different_widths_are_one(home: Home) -> None:
    parts = [rankings_of([([1, 2, 3], [3.0, 2.0, 1.0])]), rankings_of([([4], [1.0])])]
    assert stacked(parts, 2).ids.tolist() == [[1, 2], [4, -1]]


def test_report_says_what_reranking_changed(home: Home, model: str, tmp_path: Path) -> None:
    # Words alone put q3's report.md behind cash.md, and a model that counts shared words does not change that; but for
    # q1 ("cash report") it counts four times "cash" in cash.md against one "cash" and one "report".
    with home.open() as kb:
        report = run_bench(kb, plan_of("bm25", f"bm25 >> cross_encoder(model={model}, blend=1)"), "x").report
    plain, row = report.rows
    (moved,) = row.reranking
    assert plain.reranking == ()
    before, after = plain.scores, row.scores
    worse = [i for i in range(4) if after[i] < before[i]]
    assert worse == [0]
    assert (moved.degraded, moved.improved, moved.queries) == (1, 0, 4)
    assert moved.worst[0].text == "cash report"
    assert moved.worst[0].first_relevant == (1, 2)
    assert moved.worst[0].change == pytest.approx(1 / np.log2(3) - 1, abs=1e-4)
    assert moved.change.mean == pytest.approx((1 / np.log2(3) - 1) / 4, abs=1e-4)
    assert (moved.with_numbers, moved.degraded_with_numbers) == (1, 0)
    assert moved.words == MeanWords(2.0, 2.0)
    assert "0 questions better, 1 worse of 4" in markdown(report)
    assert "| -0.369 | 1 → 2 | cash report |" in markdown(report)


def test_terminal_says_what_reranking_changed(home: Home, model: str) -> None:
    said = io.StringIO()
    with home.open() as kb:
        report = run_bench(kb, plan_of("bm25", f"bm25 >> cross_encoder(model={model}, blend=1)"), "x").report
    show(report, Console(file=said, width=200))
    assert "0 questions better, 1 worse of 4 (nDCG@10 -0.092 [-0.277, +0.000])" in " ".join(said.getvalue().split())


def test_second_run_is_not_quoted(home: Home, model: str) -> None:
    plan = plan_of(f"bm25 >> cross_encoder(model={model})")
    with home.open() as kb, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Reranking, "seconds", lambda self, reranker, query, chunks: 30.0)
        before = quote_for(Bench(kb), plan).minutes
        run_bench(kb, plan, "")
        after = quote_for(Bench(kb), plan).minutes
    assert before - after == pytest.approx(2.0, abs=0.1)
