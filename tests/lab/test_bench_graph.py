"""Whether the graph pays: the preset, and the sentence."""

from __future__ import annotations

import numpy as np

from cases import each
from surefind.engine.search.pipeline import Pipeline
from surefind.lab.bench.building import graph_value
from surefind.lab.bench.plan import Contender, preset
from surefind.lab.measure.statistics import compare_all

BEST = "bm25 + dense >> weighted(weights=[1, 1], missing=score)"
WALKS = "bm25 + dense + ppr >> weighted(weights=[1, 1, 1], missing=score)"


def said(with_graph: float, without: float, texts: tuple[str, ...] = (WALKS, BEST, "bm25")) -> str:
    """The sentence for 200 questions with these means, a third configuration being worst."""
    draws = np.random.default_rng(7).random((200, 3))
    scores = (draws < np.array([with_graph, without, 0.05])).astype(np.float64)
    contenders = [Contender(text.partition(" ")[0] + str(i), Pipeline.parse(text)) for i, text in enumerate(texts)]
    return graph_value(contenders, "All@5", scores.mean(axis=0).tolist(), compare_all(scores), [5.0, 2.0, 1.0])


def test_graph_that_is_significantly_better_pays() -> None:
    text = said(0.9, 0.4)
    assert text.startswith("The graph improves results on this corpus: bm250 scores All@5")
    assert "(p50 5.0 ms against 2.0 ms)" in text


def test_graph_within_chance_does_not_pay() -> None:
    assert "does not improve results" in said(0.5, 0.5) and "is not significant" in said(0.5, 0.5)


def test_graph_that_is_significantly_worse_does_not_pay() -> None:
    assert "significantly better. Leave the graph out." in said(0.3, 0.9)


def test_graph_is_not_held_against_a_reranker() -> None:
    """The second is better because it reranks: the third is the best that differs by the graph alone."""
    assert "bm252, the best configuration without" in said(0.5, 0.9, (WALKS, f"{BEST} >> cross_encoder", "bm25"))
    assert "bm251, the best configuration without" in said(0.9, 0.5, (f"{WALKS} >> cross_encoder", BEST, "bm25"))


@each("texts", [("bm25", BEST, "dense"), (WALKS, "ppr", "graph_local")])
def test_nothing_is_said_without_both_kinds(texts: tuple[str, ...]) -> None:
    assert said(0.5, 0.5, texts) == ""


def test_walks_for_some_questions_are_no_row_with_the_graph() -> None:
    """`thorough` walks for questions with two names alone, so the graph is not what tells it from other rows."""
    some = WALKS.replace("ppr", "ppr(when=names)")
    assert said(0.5, 0.5, (f"{some} >> cross_encoder", BEST, "bm25")) == ""
    assert "bm250 scores" in said(0.5, 0.4, (WALKS, BEST, f"{some} >> cross_encoder"))


def test_preset_has_the_rows_of_the_study() -> None:
    contenders, measures = preset("graph")
    names = [contender.name for contender in contenders]
    assert len(contenders) == 14 and len(set(names)) == 14
    assert {str(c.layout) for c in contenders} == {
        "hierarchical(parent=2000, child=500, overlap=50)",
        "hierarchical(parent=2000, child=500, overlap=50) + headings",
    }
    assert measures == ("T1EM", "T5EM", "T1C", "MC", "MRR", "T1O", "BO")
