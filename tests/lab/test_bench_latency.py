"""Timings of a benchmark whose stages differ in speed: a slow one is timed on fewer queries than a fast one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from cases import each
from exam_helpers import query
from helpers import Home
from surefind.lab.bench import latency
from surefind.lab.bench.plan import Plan, from_texts, parse_measures
from surefind.lab.bench.run import run_bench
from surefind.lab.exam.model import Exam, Judgment
from toy_stages import ToyEmbedder

QUESTIONS = 12


@each(
    "pipeline",
    [
        "bm25 + dense(model=toy) >> rrf",
        "dense(model=toy) + bm25 >> rrf",
        "bm25 + dense(model=toy) >> convex(alpha=0.3, missing=score)",
        "bm25 + dense(model=toy) >> rrf >> shared_words",
    ],
)
def test_slow_stage_is_timed_on_fewer_queries(
    home: Home, toys: None, monkeypatch: pytest.MonkeyPatch, pipeline: str
) -> None:
    for i in range(QUESTIONS):
        home.write(f"docs/{i}.md", f"# Page {i}\n\nThe number of this page is word{i}.\n")
    home.sync("docs")
    embed = ToyEmbedder.embed

    def slow(self: ToyEmbedder, texts: Sequence[str], progress: Any = None) -> Any:
        time.sleep(0.02 if len(texts) == 1 else 0)
        return embed(self, texts, progress)

    monkeypatch.setattr(ToyEmbedder, "embed", slow)
    monkeypatch.setattr(latency, "_MIN_TIMED", 2)
    monkeypatch.setattr(latency, "_MAX_TIMING_SECONDS", 0.05)
    asked = tuple(query(f"q{i}", f"page word{i}", Judgment(f"{i}.md")) for i in range(QUESTIONS))
    with home.open() as kb:
        kb.build(pipeline)
        plan = Plan(tuple(from_texts(["bm25", pipeline], {})), Exam("e", asked), parse_measures(["RR@10"]))
        report = run_bench(kb, plan, "").report
    whole = report.rows[1].latency_ms
    assert min(whole.p50, whole.stages["dense"].p50) >= 20  # over fewer queries in the whole than in a stage
