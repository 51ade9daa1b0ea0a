"""`surefind study cascade`: its tables, with and without a language model, on a small corpus."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from exam_helpers import Ran, surefind
from helpers import WORDS
from llm_server import LLMServer
from llm_steps import passages, upside_down
from study_helpers import THINGS, figures, make_base, printed, tables_of
from surefind.base.access import Access
from surefind.base.types import Query
from surefind.engine.search.pipeline import Reading
from surefind.lab.study.context import Options, RunContext, Wanted, open_collections
from surefind.lab.study.stage import find_study, half_of
from surefind.lab.study.studies import cascade as paper
from surefind.lab.study.studies.cascade import STATIC, fusions, tune
from surefind.lab.train.material import simplex

pytestmark = pytest.mark.usefixtures("remembered_models")

KINDS = ("plain", "coded")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base(tmp_path_factory.mktemp("cascade"))


WORDS_OF = ("study", "cascade", "--exam", "mine", "--questions", "12")


@pytest.fixture(scope="module")
def ran(base: Path) -> Ran:
    return surefind(*WORDS_OF, "--offline", "--json", kb=base)


def test_every_table_of_the_paper_is_there(ran: Ran) -> None:
    numbers = [f"Table {n}" for n in ("A", "B", "C", "I", "II", "IV", "V", "VI", "III", "VII")]
    assert [number for number in tables_of(ran) if number.startswith("Table")] == numbers


def test_what_needs_a_model_is_named_in_each_table(ran: Ran) -> None:
    left_out = {
        number: [row["name"] for row in table["rows"] if "needs a language model" in row["left_out"]]
        for number, table in tables_of(ran).items()
    }
    assert left_out == {
        "Table A": ["Full Pipeline"],
        "Table B": [],
        "Table C": ["LLM reranker"],
        "Table I": ["+ LLM Reranking (Full)"],
        "Table II": ["Full Pipeline"],
        "Measures": ["Full Pipeline"],
        "Table IV": ["LLM: average swaps", "LLM: top-1 changed, %"],
        "Table V": list(printed("cascade", "Table V")),
        "Table VI": ["LLM"],
        "Degraded by kind": ["LLM"],
        "Static weights": [],
        "Table III": ["Dynamic (query alone)", "Dynamic (with score distributions)"],
        "Table VII": ["Weight Assignment", "LLM Reranking"],
    }


def test_the_papers_figures_stand_beside_ours(ran: Ran) -> None:
    tables = tables_of(ran)
    rows = {row["name"]: row["cells"] for row in tables["Table II"]["rows"]}
    assert rows["Dense Only"][1:] == [0.3850, 0.6996, 0.3537]
    assert rows["Full Pipeline"] == [None, 0.3873, 0.7556, 0.3981]
    assert all(0 < rows[name][0] <= 1 for name in (paper.DENSE, paper.BI, paper.TRI, paper.CE))
    heads = tables["Table II"]["heads"]
    assert [head["paper"] for head in heads] == [False, True, True, True]
    totals = {row["name"]: row["cells"] for row in tables["Table VII"]["rows"]}
    assert totals["Total"][2:] == [43807, 13196, 23951]
    for at in (0, 1):  # mean and median
        assert totals["Total"][at] == pytest.approx(totals["Retrieval"][at] + totals["Cross-Encoder"][at])


def test_table_b_counts_documents_and_questions(ran: Ran) -> None:
    table = tables_of(ran)["Table B"]
    assert figures(table)["mine"][:3] == [len(THINGS), len(THINGS), 12]
    assert figures(table)["NFCorpus"][3:] == [3633, 100, "Medical nutrition"]


def test_table_c_names_what_was_used(ran: Ran) -> None:
    rows = figures(tables_of(ran)["Table C"])
    assert rows["Dense encoder"] == ["minilm (384-dim)", "all-MiniLM-L6-v2 (384-dim)"]
    assert rows["Static weights"][0] == rows["Static weights"][1] and rows["PageRank alpha"] == ["0.85", "0.85"]
    assert rows["LLM max_tokens"] == ["250", "250"] and rows["BM25 parameters"][0] == rows["BM25 parameters"][1]


def test_the_mean_of_a_stage_is_that_of_its_times(ran: Ran) -> None:
    stages = ran.json["results"]["mine"]["latency"]["stages"]
    means = {row: cells[0] for row, cells in figures(tables_of(ran)["Table VII"]).items()}
    assert means["Cross-Encoder"] == stages["cross_encoder"]["mean"] != stages["cross_encoder"]["p50"]


def test_a_difference_is_that_to_the_static_weights(ran: Ran) -> None:
    table = tables_of(ran)["Table III"]
    rows = figures(table)
    assert [head["text"] for head in table["heads"][:2]] == ["nDCG@10", "Difference"]
    assert rows[paper.RULE][1] == pytest.approx(rows[paper.RULE][0] - rows[paper.STATIC_ROW][0])
    assert rows[paper.STATIC_ROW][1] is None and rows[paper.DYNAMIC][2:] == [
        0.2628,
        -0.0102,
        0.6896,
        -0.0708,
        0.2925,
        -0.0557,
    ]


def test_scores_are_scaled_over_the_whole_collection(base: Path) -> None:
    """By hand: each retriever's scores of all passages, scaled by their lowest and highest, and weighed."""
    (mine,) = open_collections(base, Wanted(("mine",), questions=12))
    with mine.kb:
        context = RunContext(mine, Options())
        (static, *_) = fusions(context, {})
        view, queries = mine.kb.reader().view, [Query(query.text) for query in mine.exam.queries]
        every = np.tile(view.spans().ids, (len(queries), 1))
        scores = [view.score(one, queries, every, Access.owner()) for one in static.pipeline.retrieve]
        scaled = [(s - s.min(1, keepdims=True)) / np.ptp(s, 1)[:, None].clip(1e-9) for s in scores]
        wanted = sum(weight * one for weight, one in zip(STATIC, scaled, strict=True))
        found = static.pipeline.run(queries, 100, Reading(view, mine.kb.services, Access.owner())).rankings
    best = np.take_along_axis(np.asarray(wanted), np.argsort(-np.asarray(wanted), axis=1)[:, :3], 1)
    assert static.pipeline.depth == 10_000  # by default it is 100, and the lowest score that of the hundredth passage
    apart = found.scores[:, :3] - found.scores[:, :1]
    assert apart == pytest.approx(best - best[:, :1], abs=1e-5)  # a retriever that scores all alike adds a constant


def test_as_many_questions_are_asked_as_in_the_paper() -> None:
    assert find_study("cascade").questions == 100


def test_the_papers_figures_add_up() -> None:
    """What the text derives from the tables, to find a figure that was copied wrongly."""
    ablation, weights, latency = (printed("cascade", f"Table {n}") for n in ("II", "III", "VII"))
    by_set = zip(*(ablation[name] for name in (paper.TRI, paper.CE, paper.FULL)), strict=True)
    gains = [(round(100 * (ce / tri - 1), 1), round(100 * (full / ce - 1), 1)) for tri, ce, full in by_set]
    assert gains == [(36.8, 7.7), (4.6, 4.8), (35.9, 0.1)]
    dynamic, static = weights[paper.DYNAMIC], weights[paper.STATIC_ROW]
    assert [a - b for a, b in zip(dynamic[::2], static[::2], strict=True)] == pytest.approx(dynamic[1::2], abs=0.0002)
    assert dynamic[::2] == ablation[paper.TRI]
    *stages, total = latency.values()
    assert [sum(times) for times in zip(*stages, strict=True)] == pytest.approx(list(total), abs=1)


def test_static_weights_are_tuned_on_questions_that_are_not_asked(base: Path, ran: Ran) -> None:
    found = ran.json["results"]["mine"]
    assert found["tuning"]["questions"] == 3 * len(THINGS) - 12
    assert len(found["tuning"]["points"]) == 231
    best = max(point[3] for point in found["tuning"]["points"])
    assert [*found["tuning"]["weights"], best] in found["tuning"]["points"]
    spec = found["fusion"]["rows"]["Static (tuned here)"]["spec"]
    assert "weights=[" + ", ".join(f"{weight}" for weight in found["tuning"]["weights"]) in spec


def test_the_simplex_in_steps_of_a_twentieth() -> None:
    points = simplex(3, 20)
    assert points.shape == (231, 3) and np.allclose(points.sum(axis=1), 1)
    assert len({tuple(point) for point in points.round(2).tolist()}) == 231
    assert [0.5, 0.35, 0.15] in points.round(2).tolist()


def test_the_sweep_scores_as_a_search_does(base: Path) -> None:
    """A point of the grid scores what the same weights score as a pipeline."""
    (mine,) = open_collections(base, Wanted(("mine",), questions=12))
    with mine.kb:
        context = RunContext(mine, Options())
        text = "dense + sparse + entity_overlap >> weighted(weights=[0.5, 0.35, 0.15], missing=score)"
        scored = context.score([context.contender("static", text)], ["nDCG@10"])
        swept = half_of(context, scored, "score").blended(np.array([0.5, 0.35, 0.15]), "minmax")
    assert swept == pytest.approx(scored.scores["nDCG@10"][:, 0])


def test_too_few_questions_to_tune_on_are_named(base: Path) -> None:
    (mine,) = open_collections(base, Wanted(("mine",), questions=20))
    with mine.kb:
        found = tune(RunContext(mine, Options()), {}, ())
    assert list(found["left_out"]) == ["Static (tuned here)"] and "25 questions are left" in str(found["left_out"])
    shown = surefind("study", "cascade", "--exam", "mine", "--questions", "40", "--only", "Static weights", kb=base)
    assert "best here: left out: 5 questions are left to tune on" in shown.out


def test_degraded_questions_are_counted_by_kind(ran: Ran) -> None:
    table = tables_of(ran)["Degraded by kind"]
    found = ran.json["results"]["mine"]["ablation"]
    counted = [row for row in table["rows"] if row["name"] in KINDS]
    assert [row["name"] for row in counted] == sorted({*found["families"]})
    pairs = zip(found["rows"]["Tri-Modal"]["scores"], found["rows"]["Tri-Modal + CE"]["scores"], strict=True)
    worse = sum(after < before for before, after in pairs)
    assert sum(int(row["cells"][0].split()[0]) for row in counted) == worse


def _model(prompt: str) -> str:
    """Prefers the last passage, and gives the graph no weight."""
    if "<passage" in prompt:
        return json.dumps({"ranking": upside_down(passages(prompt))})
    return json.dumps({"dense": 0.6, "sparse": 0.4, "entity_overlap": 0.0})


def test_with_a_model_nothing_is_left_out(base: Path, llm: LLMServer) -> None:
    llm.reply = _model
    (base / "surefind.toml").write_text(f'{WORDS}\n[llm.prices]\n"{llm.model}" = [1, 1]\n')
    try:
        refused = surefind(*WORDS_OF, "--llm", llm.model, "--json", kb=base)
        assert refused.code == 2 and "Add --yes to continue" in refused.err and not llm.bodies
        ran = surefind(*WORDS_OF, "--llm", llm.model, "--yes", "--json", kb=base)
    finally:
        (base / "surefind.toml").write_text(WORDS)
    tables = tables_of(ran)
    assert not [row for table in tables.values() for row in table["rows"] if row["left_out"]]
    rows = {row["name"]: row["cells"] for row in tables["Table IV"]["rows"]}
    assert rows["LLM: top-1 changed, %"][0] == 100 and rows["LLM: average swaps"][0] > 1
    assert {row["name"] for row in tables["Table III"]["rows"]} >= {paper.DYNAMIC, paper.INFORMED}
    assert tables["Table VII"]["rows"][3]["cells"][0] > 0
    assert f"--llm '{llm.model}'" in tables["Table I"]["command"]
