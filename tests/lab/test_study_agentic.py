"""`surefind study agentic-kb`: its tables and figures, with and without a language model, on a small corpus."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases import each
from exam_helpers import Ran, query, surefind
from helpers import WORDS, Home
from llm_server import LLMServer
from llm_steps import passages, upside_down
from study_helpers import printed
from surefind.base.access import Access
from surefind.lab.bench import latency
from surefind.lab.exam.model import Exam, Judgment
from surefind.lab.exam.store import ExamStore
from surefind.lab.measure.statistics import wilson
from surefind.lab.study.context import Options, RunContext, Wanted, open_collections
from surefind.lab.study.html import draw_swarm
from surefind.lab.study.run import StudyRun
from surefind.lab.study.stage import find_study, half_of
from surefind.lab.study.studies.agentic_kb import _fusion, _reranking, _setting
from surefind.lab.study.studies.agentic_kb import _setting as paper
from surefind.lab.study.studies.agentic_kb._cells import clouds
from surefind.lab.study.studies.agentic_kb._setting import Scorer
from surefind.lab.study.values import Column
from surefind.lab.train import alpha
from surefind.lab.train.alpha import cross_fitted

pytestmark = pytest.mark.usefixtures("remembered_models")

THINGS = "cash cheque wire loan card deposit vault ledger audit teller branch mortgage receipt statement fee".split()
PEOPLE = ("Mia Reyes", "Tom Hale", "Ada Stone")
FACTS = (
    ("Who approves the {}?", "{person} approves each {thing} of the day", "sf1h"),
    ("What is the limit of a {}?", "The limit of one {thing} is {n}00 dollars", "sf1h"),
    ("Where is the {} kept?", "It is kept in room {n} beside the stairs", "sf2h"),
    ("{} rule number", "Rule {n} governs the {thing}", "sf1h"),
    ("How long do we store what a {} leaves behind?", "Papers about a {thing} are stored for {n} years", "mf2h"),
)
KEPT = ("fixed-700-20", "semantic-80-1-800", paper.BASE, paper.AGENTIC_1, paper.AGENTIC_2)
RERANKED = 12
"""Questions that the cross-encoder reranks here."""
NAME = ("study", "agentic-kb", "--exam", "mine")


@pytest.fixture(scope="module", autouse=True)
def small() -> Iterator[None]:
    """Few layouts and few settings to choose from: the grids are checked by tests of their own."""
    layouts = dict(_setting.LAYOUTS)
    with pytest.MonkeyPatch.context() as patch:
        for name in layouts.keys() - KEPT:
            del _setting.LAYOUTS[name]
        for grid in ("LAYERS", "MLP_RATES", "BATCHES", "DROPOUTS", "DECAYS", "DEPTHS", "RATES", "SUBSAMPLES"):
            patch.setattr(alpha, grid, getattr(alpha, grid)[:1])
        patch.setattr(alpha, "TREES", (5, 10))
        patch.setattr(_reranking, "_MAX_RERANKED", RERANKED)
        patch.setattr(latency, "SAMPLE", 5)
        yield
    _setting.LAYOUTS.clear()
    _setting.LAYOUTS.update(layouts)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _knowledge_base(tmp_path_factory.mktemp("agentic"))


def _knowledge_base(folder: Path) -> Path:
    home = Home(folder)
    for n, thing in enumerate(THINGS):
        facts = ". ".join(text.format(thing=thing, n=n, person=PEOPLE[n % 3]) for _, text, _ in FACTS)
        front = f"---\ntags: [{'money' if n % 2 else 'paper'}, all]\n---\n"
        home.write(f"docs/{thing}.md", f"{front}# The {thing}\n\n{facts}.\n")
    home.sync("docs")
    with home.open() as kb:
        documents = {document.id.split("/")[-1]: document for document in kb.documents(Access.owner())}
        asked = []
        for n, thing in enumerate(THINGS):
            document = documents[f"{thing}.md"]
            for i, (text, answer, family) in enumerate(FACTS):
                gold = answer.format(thing=thing, n=n, person=PEOPLE[n % 3])
                start = document.text.index(gold)
                judgment = Judgment(document.id, start, start + len(gold), quote=gold)
                asked.append(query(f"q{n}-{i}", text.format(thing), judgment, family=family))
        ExamStore(kb.data / "exams").save(Exam("mine", tuple(asked)))
    return home.folder


@pytest.fixture(scope="module")
def ran(base: Path, small: None) -> Ran:
    return surefind(*NAME, "--offline", "--json", kb=base)


@pytest.fixture(scope="module")
def tables(ran: Ran) -> dict[str, Any]:
    assert ran.code == 0, ran.err
    return {table["number"]: table for table in ran.json["tables"]}


def _cells(table: Any, name: str) -> list[Any]:
    return next(row["cells"] for row in table["rows"] if row["name"] == name)


# ---------------------------------------------------------------- the paper


def test_the_grid_is_that_of_the_paper() -> None:
    text = Path(_setting.__file__).read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(compile(text, "layouts", "exec"), names)  # the module as it is, without the layouts that `small` removed
    deterministic = [name for name in names["LAYOUTS"] if "agentic" not in name]
    assert len(deterministic) == 18 and len(names["LAYOUTS"]) == 20
    assert names["LAYOUTS"]["fixed-1300-20"] == "fixed(tokens=1300, overlap=260)"
    assert "semantic-90-1-1200" in deterministic and "hierarchical-3000-1000-100" in deterministic


def test_the_papers_contradictions_are_in_its_figures() -> None:
    """What docs/study-agentic-kb.md says about the paper, and what its text derives. It finds wrong copies."""
    chunking, graph, fusion = _by_set("Table 1"), _by_set("Table 3", paper.SETS[1:], paper.WIDE), _by_set("Table 4")
    reranked = {row: cells[0] for row, cells in printed("agentic-kb", "Figure 9").items()}
    below = [one for sets in fusion.values() for one, found in sets.items() if found["T1C"] < found["T1EM"]]
    assert below == ["MF2H"] * 6
    assert chunking[paper.AGENTIC_1]["SF1H"]["T1EM"] == 0.369 and fusion["α = 1"]["SF1H"]["T1EM"] == 0.264
    assert printed("agentic-kb", "Figure 10")["τ = 0.80"][1] < reranked["τ = 0.50"]
    assert reranked["τ = 0.50"] == fusion["Learned XGBoost"]["SF1H"]["T1EM"]
    assert fusion[paper.ORACLE]["SF1H"]["T1EM"] < fusion["α = 0"]["SF1H"]["T1EM"]
    gaps = [fusion[paper.ORACLE][one]["T1EM"] - fusion["Learned XGBoost"][one]["T1EM"] for one in paper.SETS]
    assert (min(gaps), max(gaps)) == pytest.approx((0.024, 0.066))
    never, at, always = (reranked[f"τ = {tau}"] for tau in ("0.50", "0.95", "1.00"))
    assert (at - never) / (always - never) == pytest.approx(0.87, abs=0.005)
    gain = chunking[paper.AGENTIC_1]["MF2H"]["T1EM"] / chunking[paper.BASE]["MF2H"]["T1EM"]
    assert gain == pytest.approx(1.068, abs=0.001)
    for one in paper.SETS[1:]:
        assert {key: graph[paper.NO_GRAPH][one][key] for key in paper.KEY} == chunking[paper.AGENTIC_1][one]
    for one, wide in graph[paper.ON_AGENTIC].items():
        assert all(wide[key] < graph[paper.NO_GRAPH][one][key] for key in ("T5EM", "MC", "BO"))


def _by_set(
    number: str, sets: Sequence[str] = paper.SETS, measures: Sequence[str] = paper.KEY
) -> dict[str, dict[str, dict[str, Any]]]:
    """The figures of a table of the paper: row -> set -> measure -> figure."""
    keys = [(one, measure) for one in sets for measure in measures]
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row, cells in printed("agentic-kb", number).items():
        for (one, measure), cell in zip(keys, cells, strict=True):
            found.setdefault(row, {}).setdefault(one, {})[measure] = cell
    return found


# ---------------------------------------------------------------- offline


def test_every_table_and_figure_is_there(tables: dict[str, Any]) -> None:
    wanted = ["Table 1", "Table 2", "Figure 4", "Table 3", "Table 4", *(f"Figure {n}" for n in range(5, 9))]
    wanted += ["Table 5", *(f"Figure {n}" for n in range(9, 13))]
    assert [number for number in tables if "," not in number] == wanted


def test_every_step_says_when_it_is_done(base: Path) -> None:
    """A step that never reports its end seems to take until the end of the run."""
    (mine,) = open_collections(base, Wanted(("mine",)))
    last: dict[str, tuple[int, int]] = {}
    with mine.kb:
        options = Options(layout="fixed(tokens=90)")  # not stored by other tests
        run = StudyRun("agentic-kb", find_study("agentic-kb"), [mine], options, fresh=True)
        replace(run, report=lambda what, done, total: last.update({what: (done, total)})).run()
    assert {"Fitting mlp", "Fitting ridge", "Fitting xgboost"} <= set(last)
    assert [what for what, (done, total) in last.items() if done != total] == []


def test_what_needs_a_model_is_named_in_each_table(tables: dict[str, Any]) -> None:
    left_out = {
        number: names
        for number, table in tables.items()
        if (names := [row["name"] for row in table["rows"] if "needs a language model" in row["left_out"]])
    }
    agentic = [paper.AGENTIC_1, paper.AGENTIC_2]
    graphs = [paper.NO_GRAPH, paper.ON_BASE, paper.ON_AGENTIC]
    assert left_out == {
        "Table 1": agentic,
        "Table 1, hybrid": agentic,
        "Table 2": agentic,
        "Figure 4": graphs,
        "Table 3": graphs,
        "Table 5": [_reranking.LLM],
        "Figure 9": [_reranking.LLM],
        "Figure 10": [_reranking.LLM],
    }


def test_the_sets_of_the_study_are_columns_beside_the_papers(tables: dict[str, Any]) -> None:
    heads = [(head["group"], head["text"], head["paper"]) for head in tables["Table 1"]["heads"]]
    ours = [(f"mine {one}", key, False) for one in paper.SETS for key in paper.KEY]
    assert heads == ours + [(one, key, True) for one in paper.SETS for key in paper.KEY]
    cells = _cells(tables["Table 1"], paper.BASE)
    assert cells[12:16] == [0.387, 0.507, 0.243, 0.482] and all(0 <= cell <= 1 for cell in cells[:12])
    assert _cells(tables["Table 1"], paper.AGENTIC_1)[:12] == [None] * 12
    assert _cells(tables["Table 3"], paper.ON_BASE)[14:16] == [0.318, 0.752]
    assert _cells(tables["Table 2"], "semantic-80-1-800")[4:] == [4.263, 0.0, 0.197]


def test_later_stages_use_the_layout_that_won(ran: Ran) -> None:
    found = ran.json["results"]["mine"]
    means = {
        name: np.mean([found["chunking"]["groups"]["all"][f"{name} | dense"][key] for key in paper.KEY])
        for name in KEPT[:3]
    }
    best = max(means, key=lambda name: means[name])
    assert found["chunking"]["winner"] == best == found["fusion"]["layout"]
    chunker = _setting.LAYOUTS[best].split("(")[0]
    assert all(row["spec"].startswith(chunker) for row in found["fusion"]["rows"].values() if "@10" in row["spec"])


def test_no_choice_of_alpha_beats_the_best_one(ran: Ran) -> None:
    groups = ran.json["results"]["mine"]["fusion"]["groups_all"]
    for rows in groups.values():
        for name in paper.ALPHAS:
            assert all(rows[_fusion.BEST][key] >= rows[name][key] - 1e-9 for key in paper.KEY)
        assert set(rows[paper.ORACLE]) == set(paper.KEY)


def test_the_models_are_tested_on_questions_apart(ran: Ran, tables: dict[str, Any]) -> None:
    found = ran.json["results"]["mine"]["fusion"]
    assert len(found["test"]) == pytest.approx(0.15 * len(found["ids"]), abs=3)
    assert set(found["models"]) == set(paper.LEARNED) and all(len(a) == 75 for a in found["alphas"].values())
    assert found["models"]["ridge"]["chosen"]["lambda"] in alpha.LAMBDAS
    curve = found["models"]["mlp"]["losses"]
    assert [row["cells"] for row in tables["Figure 7"]["rows"]] == curve and len(curve) > 10
    assert [row["name"] for row in tables["Figure 6"]["rows"]][:4] == [
        "words",
        "has_digits",
        "has_wh_word",
        "has_acronym",
    ]
    assert _cells(tables["Figure 8"], "Learned XGBoost")[-1] == 0.589


def test_figure_8_has_a_point_for_each_test_question(ran: Ran, tables: dict[str, Any]) -> None:
    found = ran.json["results"]["mine"]["fusion"]
    clouds = {cloud["name"]: cloud["points"] for cloud in tables["Figure 8"]["clouds"]}
    assert list(clouds) == [f"mine {one} {name}" for name in paper.LEARNED.values() for one in paper.SETS]
    stars = [found["stars"][i] for i in found["test"]]
    predicted = found["models"]["xgboost"]["test"]
    for one in paper.SETS:
        inside = [found["families"][i].upper() == one for i in found["test"]]
        wanted = [pair for pair, there in zip(zip(stars, predicted, strict=True), inside, strict=True) if there]
        assert sorted(map(tuple, clouds[f"mine {one} Learned XGBoost"])) == sorted(wanted)


def test_figure_8_has_r_squared_by_set_and_over_all(ran: Ran, tables: dict[str, Any]) -> None:
    heads = [(head["group"], head["text"]) for head in tables["Figure 8"]["heads"]]
    ours = [f"mine {one}" for one in paper.SETS] + ["mine"]
    assert heads == [(one, text) for one in ours for text in ("R² test", "lowest α", "highest α")] + [("", "R²")]
    found = ran.json["results"]["mine"]["fusion"]
    stars = np.array(found["stars"])[found["test"]]
    overall = alpha.r_squared(stars, np.array(found["models"]["ridge"]["test"]))
    assert _cells(tables["Figure 8"], "Learned Ridge")[9] == pytest.approx(overall)


def test_figure_6_has_a_dot_for_each_test_question_and_feature(ran: Ran, tables: dict[str, Any]) -> None:
    figure = tables["Figure 6"]
    assert figure["chart"] == "swarm"
    swarms = {cloud["name"]: cloud["points"] for cloud in figure["clouds"]}
    found = ran.json["results"]["mine"]["fusion"]
    assert list(swarms) == ["words", "has_digits", "has_wh_word", "has_acronym"]
    for name, points in swarms.items():
        effect = found["models"]["xgboost"]["effects"][name]
        assert len(points) == len(found["test"]) and all(0 <= level <= 1 for _, level in points)
        low, high = min(value for value, _ in points), max(value for value, _ in points)
        assert (low, high) == pytest.approx((effect["low"], effect["high"]), abs=1e-4)
    assert draw_swarm("t", figure["clouds"]).count("<circle") == 4 * len(found["test"])


@each("number", ["Figure 4", "Figure 11"])
def test_a_figure_draws_all_four_measures(tables: dict[str, Any], number: str) -> None:
    assert tables[number]["drawn"] == list(paper.KEY)
    assert {head["text"] for head in tables[number]["heads"] if not head["paper"]} >= set(paper.KEY)


def test_a_large_cloud_is_thinned_the_same_way_each_time() -> None:
    many = [i / 1000 for i in range(1000)]
    result = {"stars": many, "test": list(range(1000)), "models": {"ridge": {"test": many}}}
    first, second = (clouds([Column("mine", {"fusion": result})]) for _ in range(2))
    assert first == second and [cloud.name for cloud in first] == ["mine Learned Ridge"]
    assert len(first[0].points) == 300 and all(star == predicted for star, predicted in first[0].points)


def test_learned_blends_score_as_a_search_does(base: Path) -> None:
    """The same α as a pipeline and as one weight for each question."""
    (mine,) = open_collections(base, Wanted(("mine",)))
    with mine.kb:
        context = RunContext(mine, Options())
        scored = context.score(
            [context.contender("fixed", _fusion.pipeline(0.3), _setting.LAYOUTS[paper.BASE])], paper.KEY
        )
        half = half_of(context, scored)
        found = Scorer(context, scored, half.queries, paper.KEY).scores(_fusion.fused(half, np.full(75, 0.3)))
    for key in paper.KEY:
        assert found[key] == pytest.approx(scored.scores[key][:, 0])


def test_each_question_is_predicted_by_a_model_that_has_not_seen_it(base: Path) -> None:
    """Other targets for the questions of a fold change the predictions of the other folds alone."""
    (mine,) = open_collections(base, Wanted(("mine",)))
    with mine.kb:
        context = RunContext(mine, Options())
        scored = context.score(
            [context.contender("fixed", _fusion.pipeline(0.3), _setting.LAYOUTS[paper.BASE])], paper.KEY
        )
        half, other = half_of(context, scored), half_of(context, scored)
    fold = alpha.folds(75)
    changed = half.alphas.copy()
    changed[fold == 2] = 1 - changed[fold == 2]
    object.__setattr__(other, "alphas", changed)
    settings = {"max_depth": 3, "learning_rate": 0.3, "subsample": 1.0, "n_estimators": 10}
    for kind, chosen in (("ridge", {"lambda": 1.0}), ("xgboost", settings)):
        first, second = (cross_fitted(kind, one, chosen, lambda texts: np.zeros((0, 0))) for one in (half, other))  # type: ignore[arg-type,return-value]
        assert np.array_equal(first[fold == 2], second[fold == 2])
        assert not np.array_equal(first[fold != 2], second[fold != 2])


def test_a_threshold_decides_whose_new_order_counts(ran: Ran, tables: dict[str, Any]) -> None:
    found = ran.json["results"]["mine"]["reranking"]
    rows = found["thresholds"]
    assert [row["tau"] for row in rows] == list(paper.THRESHOLDS)
    shares = [row["reranked"] for row in rows]
    assert shares == sorted(shares) and found["always"]["reranked"] == 1.0
    at = next(row for row in rows if row["tau"] == paper.TAU)
    assert at["T1EM"] == pytest.approx(np.mean(found["ladder"]["T1EM"]))
    interval = wilson(round(at["T5EM"] * at["skipped"]), at["skipped"])
    assert (at["low"], at["high"]) == pytest.approx((interval.low, interval.high))
    assert at["skipped"] == round((1 - at["reranked"]) * RERANKED)
    assert at["seconds"] == pytest.approx(at["reranked"] * found["always"]["seconds"])
    assert _cells(tables["Figure 9"], "τ = 0.80")[-1] == 0.606 and _cells(tables["Figure 10"], "τ = 0.80")[-1] == 0.398


def test_the_ladder_has_four_steps_overall_and_by_tag(ran: Ran, tables: dict[str, Any]) -> None:
    assert [row["name"] for row in tables["Figure 11"]["rows"]] == ["Agentic", "Graph", "Fusion", "Rerank"]
    assert not [row for row in tables["Figure 11"]["rows"] if None in row["cells"][:12]]
    tags = {row["name"]: row["cells"] for row in tables["Figure 12"]["rows"]}
    assert set(tags) == {"all", "money", "paper"} and tags["all"][0] == RERANKED == tags["money"][0] + tags["paper"][0]
    found = ran.json["results"]["mine"]
    places = [found["fusion"]["ids"].index(key) for key in found["reranking"]["ids"]]
    assert tags["all"][3] == pytest.approx(np.mean(np.array(found["fusion"]["ladder"]["T1EM"])[places]))
    assert tags["all"][4] == pytest.approx(np.mean(found["reranking"]["ladder"]["T1EM"]))


def test_too_few_questions_leave_the_learned_rows_out(base: Path) -> None:
    (mine,) = open_collections(base, Wanted(("mine",), questions=40))
    with mine.kb:
        context = RunContext(mine, Options())
        found = _fusion.measure(context, {}, _fusion.contenders(context, {}))
        scored = context.score(_fusion.contenders(context, {})[:1], paper.KEY)
        _, alphas = _reranking._asked(scored, half_of(context, scored), {"fusion": found}, sample=False)
    assert set(found["left_out"]) == set(paper.LEARNED.values()) and "ladder" in found
    assert all("40 questions are too few to train on" in why for why in found["left_out"].values())
    assert set(found["groups"]["all"]) == {*paper.ALPHAS, paper.ORACLE, _fusion.BEST}
    assert alphas.tolist() == [0.5] * 40


# ---------------------------------------------------------------- with a language model


def _model(prompt: str) -> str:
    if "<passage" in prompt and "<query" in prompt:
        return json.dumps({"ranking": upside_down(passages(prompt))})
    if "breaking points" in prompt:
        return "1"
    if "<chunk" in prompt:
        return "It is about money."
    names = sorted(set(re.findall("|".join(PEOPLE), prompt)))
    related = [{"relation": "knows", "target": names[-1]}] if names else []
    entities = [{"text": name, "type": "person", "relationships": related} for name in names]
    return json.dumps({"entities": entities})


def test_with_a_model_nothing_is_left_out(base: Path, llm: LLMServer) -> None:
    llm.reply = _model
    (base / "surefind.toml").write_text(f'{WORDS}\n[llm.prices]\n"{llm.model}" = [1, 1]\n')
    try:
        refused = surefind(*NAME, "--llm", llm.model, "--json", kb=base)
        assert refused.code == 2 and "Add --yes to continue" in refused.err and not llm.bodies
        ran = surefind(*NAME, "--llm", llm.model, "--yes", "--json", kb=base)
    finally:
        (base / "surefind.toml").write_text(WORDS)
    assert ran.code == 0, ran.err
    tables = {table["number"]: table for table in ran.json["tables"]}
    assert not [(n, row["name"]) for n, table in tables.items() for row in table["rows"] if row["left_out"]]
    seconds, by_model, dollars, _ = _cells(tables["Table 2"], paper.AGENTIC_1)[:4]
    assert seconds > by_model > 0 and dollars > 0
    assert _cells(tables["Table 2"], paper.BASE)[1:3] == [0.0, 0.0]
    asked = [prompt for prompt in llm.prompts if "Identify the named entities" in prompt]
    context = [prompt for prompt in asked if "It is about money." in prompt]
    assert context and len(context) < len(asked)  # a graph on agentic passages reads their context, the other does not
    assert "LLM reranking on 75 questions" in tables["Table 5"]["notes"][0]
    assert _cells(tables["Table 5"], "always")[1] > 0
    assert ran.json["results"]["mine"]["graph"]["rows"][paper.ON_BASE]["latency_ms"]["p50"] > 0


def test_stages_that_share_a_layout_quote_it_once(tmp_path: Path) -> None:
    (mine,) = open_collections(_knowledge_base(tmp_path), Wanted(("mine",), model="ollama:none"))
    with mine.kb:
        run = StudyRun("agentic-kb", find_study("agentic-kb"), [mine], Options(llm=True), fresh=True)
        passages = len(mine.kb.reader().view)
        alone, both = (
            sum(calls.calls for calls in replace(run, only=only).calls()[0][1])
            for only in (("Table 1",), ("Table 1", "Figure 4"))
        )
    # The graph adds a call for each passage of two layouts, and one for each question of two searches.
    assert alone > 0 and both - alone == 2 * passages + 2 * 75
