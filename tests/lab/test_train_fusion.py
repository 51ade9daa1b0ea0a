"""`surefind train` on the sample: what is learned, what is reported, and where a model refuses to be used."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases import each
from exam_helpers import surefind
from helpers import EXAMPLE, Home, ask
from surefind import Access, KnowledgeBase
from surefind.base import spec
from surefind.base.disk.sealed import sealed, to_json, unsealed
from surefind.base.errors import ExamError, LockedError, MissingPartError, SpecError, StoreError
from surefind.base.types import Query, Rankings
from surefind.engine.fuse.learned import Learned, load_predictor
from surefind.engine.fuse.support.predictors import MLP
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.services import LocalServices
from surefind.engine.store.lock import training_lock
from surefind.engine.write.layout import Layout
from surefind.lab.bench.plan import parse_measures, preset
from surefind.lab.exam.known_item import generate
from surefind.lab.exam.model import Exam, held_out
from surefind.lab.exam.store import ExamStore
from surefind.lab.train import alpha
from surefind.lab.train.alpha import Fitted, fit_mlp, r_squared
from surefind.lab.train.fusion import MODELS, search, train_fusion, train_weights
from surefind.lab.train.material import Half, Material, best_static, gather
from surefind.lab.train.report import FusionReport, JudgedRow, compare, verdict
from surefind.testing import FUSER_ROWS, check_rankings, rankings_of
from toy_stages import ToyEmbedder

PAIR = ["bm25", "tfidf"]
(NDCG,) = parse_measures(["nDCG@10"])


def quiet(what: str, done: int, total: int) -> None:
    pass


@pytest.fixture(scope="module", autouse=True)
def _packages() -> None:
    """Imported where the tests run, and not by every process that collects them."""
    pytest.importorskip("sklearn")
    pytest.importorskip("xgboost")


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    home = Home(tmp_path_factory.mktemp("trained"))
    shutil.copytree(EXAMPLE, home.docs, dirs_exist_ok=True)
    home.sync("docs")
    with home.open() as base:
        made = generate(base.documents(Access.owner()), per_family=14)
        asked = tuple(replace(query, family=f"asked {query.family}") for query in made.queries)  # count as real ones
        ExamStore(base.data / "exams").save(Exam("known-item", asked, corpus=base.reader().fingerprint))
        yield base


@pytest.fixture(scope="module")
def exam(kb: KnowledgeBase) -> Exam:
    return ExamStore(kb.data / "exams").load("known-item")


@pytest.fixture(scope="module")
def material(kb: KnowledgeBase, exam: Exam) -> Material:
    return gather(kb, exam, PAIR, NDCG, "score")


@pytest.fixture(scope="module")
def fitted(material: Material) -> Callable[[str], Fitted]:
    """Models by their names, each fitted once on `material`."""
    return cache(lambda model: MODELS[model](material, quiet))


@pytest.fixture(scope="module")
def trained(kb: KnowledgeBase, exam: Exam) -> dict[str, FusionReport]:
    models = ("ridge", "xgboost", "ndcg")
    return {model: train_fusion(kb, exam, model, PAIR, missing="score") for model in models}


# ---------------------------------------------------------------- halves


def test_the_halves_are_those_of_the_exam(material: Material, exam: Exam) -> None:
    out = held_out(exam.queries)
    assert [q.id for q in material.held.queries] == [q.id for q, held in zip(exam.queries, out, strict=True) if held]
    assert not {q.id for q in material.tuning.queries} & {q.id for q in material.held.queries}


@each("model", ["ridge", "ndcg"])
def test_the_held_out_half_changes_nothing_that_is_learned(
    material: Material, fitted: Callable[[str], Fitted], model: str
) -> None:
    """Fitted beside another held-out half, the model gives the same weights."""
    half = material.held
    few = half.taken(np.arange(5))
    fits = [fitted(model).predictor, MODELS[model](replace(material, held=few), quiet).predictor]
    found = [p.fuse(half.texts, half.rankings, material.embed, 10).ids for p in fits]
    assert np.array_equal(*found)
    assert np.array_equal(*(best_static(m)[1] for m in (material, replace(material, held=few))))


def _rows(ranking: Rankings, rows: slice) -> Rankings:
    return replace(ranking, ids=ranking.ids[rows], scores=ranking.scores[rows])


# ---------------------------------------------------------------- the report


@each("model", ["ridge", "xgboost", "ndcg"])
def test_report_says_what_was_compared(trained: dict[str, FusionReport], model: str) -> None:
    made = trained[model]
    names = [row.name for row in made.rows]
    assert names[0] == f"learned {model}"
    assert names[1].startswith("best static, weighted(weights=[")
    assert names[2:] == ["RRF k=60", "bm25", "tfidf", "oracle α*", "oracle, best α per query"]
    assert all(row.low <= row.mean <= row.high for row in made.rows)
    assert all(0 <= row.p <= 1 for row in made.rows[1:5])
    Pipeline.parse(made.use)
    assert made.use in [made.rows[i].spec for i in (0, 1, 3, 4)]


def test_r_squared_and_importance_are_reported(trained: dict[str, FusionReport]) -> None:
    for model in ("ridge", "xgboost"):
        assert {"r2_train", "r2_validation", "r2_test", "r2_held_out"} <= trained[model].metrics.keys()
    shap = trained["xgboost"].metrics["shap"]
    assert len(shap) == 25
    assert list(shap.values()) == sorted(shap.values(), reverse=True)
    assert set(trained["ridge"].metrics["coefficients"]) == {"words", "has_digits", "has_wh_word", "has_acronym"}
    assert "weight_bm25" in trained["ndcg"].metrics["shap"]


def test_manifest_holds_fingerprints(trained: dict[str, FusionReport], kb: KnowledgeBase, exam: Exam) -> None:
    saved = json.loads((kb.data / "models" / "xgboost-known-item" / "manifest.json").read_text(encoding="utf-8"))
    assert to_json(trained["xgboost"]).items() <= saved.items()
    assert saved["corpus"] == kb.reader().fingerprint
    assert saved["exam"]["fingerprint"] == exam.fingerprint
    assert [r["name"] for r in saved["retrievers"]] == PAIR
    assert all(spec.make("retrieve", r["spec"]) for r in saved["retrievers"])


def test_a_name_that_is_being_trained_is_refused(kb: KnowledgeBase, exam: Exam) -> None:
    with training_lock(kb.data, "mine"), pytest.raises(LockedError, match="is training 'mine'"):
        train_fusion(kb, exam, "ridge", PAIR, "mine", missing="score")


def test_training_twice_gives_the_same(kb: KnowledgeBase, exam: Exam, trained: dict[str, FusionReport]) -> None:
    again = train_fusion(kb, exam, "ndcg", PAIR, name="again")
    assert again.rows[0].mean == trained["ndcg"].rows[0].mean
    assert again.hyperparameters == trained["ndcg"].hyperparameters


@each(("shift", "says"), [(0.2, "beats"), (-0.2, "wins"), (0.0, "statistically tied")])
def test_verdict_recommends_static_unless_beaten(shift: float, says: str) -> None:
    rng = np.random.default_rng(1)
    static = rng.random(200)
    noise = rng.choice([-0.1, 0.1], 200) if not shift else 0.0
    rows = compare(("learned", "L", static + shift + noise), {("static", "S"): static}, {})
    if not shift:
        rows[1] = replace(rows[1], gain=abs(rows[1].gain or 0))
    sentence, use = verdict(rows, 1, "nDCG@10")
    assert says in sentence
    assert use == ("L" if shift > 0 else "S")


def test_verdict_recommends_a_single_retriever_that_is_no_worse() -> None:
    scores = np.random.default_rng(1).random(50)
    others = {("static", "S"): scores, ("RRF", "R"): scores + 0.2, ("bm25", "B"): scores, ("ppr", "P"): scores + 0.1}
    rows = compare(("learned", "L", scores + 0.05), others, {})
    sentence, use = verdict(rows, 1, "nDCG@10", alone=(3, 4))
    assert sentence.startswith("ppr alone scores")
    assert use == "P"
    assert verdict(rows, 1, "nDCG@10", alone=(3,))[1] == "L"


def test_questions_about_one_document_alone_do_not_make_a_model_better() -> None:
    static = np.random.default_rng(1).random(60)
    trained = ("learned", "L", static + np.where(np.arange(60) < 30, 0.2, 0.0))
    clusters = np.array([0] * 30 + list(range(1, 31)))
    assert compare(trained, {("static", "S"): static}, {})[1].significant
    assert not compare(trained, {("static", "S"): static}, {}, clusters)[1].significant


def test_comparison_written_out() -> None:
    a, b = np.array([1.0, 0.5, 1.0, 0.0]), np.array([0.5, 0.5, 0.5, 0.0])
    first, second, oracle = compare(("a", "A", a), {("b", "B"): b}, {"oracle": np.ones(4)})
    assert (first.mean, second.mean, oracle.mean) == (0.625, 0.375, 1.0)
    assert second.gain == 0.25
    assert isinstance(first, JudgedRow)
    assert first.gain is None


def test_r_squared_written_out() -> None:
    assert r_squared(np.array([0.0, 1.0]), np.array([0.0, 1.0])) == 1
    assert r_squared(np.array([0.0, 1.0]), np.array([0.5, 0.5])) == 0
    assert r_squared(np.array([0.5, 0.5]), np.array([0.0, 1.0])) == 0


# ---------------------------------------------------------------- in a pipeline


@each("model", ["ridge", "xgboost", "ndcg"])
def test_pipeline_gives_what_was_judged(
    model: str, kb: KnowledgeBase, material: Material, trained: dict[str, FusionReport]
) -> None:
    fuser = Learned(f"{model}-known-item", "score")
    half = material.held
    queries = [Query(text) for text in half.texts]
    found = fuser.fuse_for(queries, half.rankings, 100, kb.services)
    assert half.score(found).mean() == pytest.approx(trained[model].rows[0].mean, abs=1e-5)
    for i in (0, 7):
        one = fuser.fuse_for(queries[i : i + 1], [_rows(r, slice(i, i + 1)) for r in half.rankings], 10, kb.services)
        assert one.row(0)[0].tolist() == found.row(i)[0][:10].tolist()
    hits = ask(kb, "wire transfer cut-off", pipeline=f"bm25 + tfidf >> {fuser}").hits
    assert len(hits) == 10


@each("model", ["ridge", "xgboost", "ndcg"])
def test_fuser_keeps_the_contract(model: str, kb: KnowledgeBase, trained: dict[str, FusionReport]) -> None:
    fuser = Learned(f"{model}-known-item")
    sides = [[row[side] for row in FUSER_ROWS] for side in (0, 1)]
    rankings = [rankings_of(sides[0]), rankings_of(sides[1], "tfidf", "sparse", 0.0)]
    queries = [Query(f"cash {i}") for i in range(len(FUSER_ROWS))]
    check_rankings(fuser.fuse_for(queries, rankings, 10, kb.services), len(queries), 10, 10)
    assert len(fuser.fuse_for([], [_rows(r, slice(0)) for r in rankings], 10, kb.services)) == 0


@each("model", ["ridge", "xgboost", "ndcg"])
def test_prediction_is_quick(
    model: str, kb: KnowledgeBase, material: Material, trained: dict[str, FusionReport]
) -> None:
    """A millisecond at most, as docs/fusion.md says; here, on a machine that may be busy, that it is no other order."""
    predictor = load_predictor(model, kb.data / "models" / f"{model}-known-item")
    ones = [[_rows(r, slice(i, i + 1)) for r in material.held.rankings] for i in range(40)]
    times = []
    for i, one in enumerate(ones):
        started = time.perf_counter()
        predictor.fuse([material.held.texts[i]], one, material.embed, 10)
        times.append((time.perf_counter() - started) * 1000)
    assert min(times) < 10


@each(
    ("pipeline", "says"),
    [
        ("tfidf + bm25", r"the retrievers are tfidf\(.*\) \+ bm25\(.*\), not bm25\(.*\) \+ tfidf"),
        ("bm25(k1=1.2) + tfidf", r"bm25's k1 is 1.2, not 1.5\."),
        ("bm25 + tfidf(ngrams=1, features=99)", r"tfidf's ngrams is 1, not 2; tfidf's features is 99, not 50000"),
        ("bm25 + tfidf @50", r"returns 50 candidates, not 100"),
    ],
)
def test_other_retrievers_are_refused_by_what_changed(
    kb: KnowledgeBase, trained: dict[str, FusionReport], pipeline: str, says: str
) -> None:
    with pytest.raises(SpecError, match=rf"cannot be used here: .*{says}.* or train it again"):
        ask(kb, "cash", pipeline=f"{pipeline} >> learned(model=ridge-known-item, missing=score)")


def test_other_treatment_of_missing_candidates_is_refused(kb: KnowledgeBase, trained: dict[str, FusionReport]) -> None:
    says = r"was trained with missing=score. Write learned\(model=ridge-known-item, missing=score\)"
    with pytest.raises(SpecError, match=says):
        ask(kb, "cash", pipeline="bm25 + tfidf >> learned(model=ridge-known-item)")


def test_other_layout_is_refused(kb: KnowledgeBase, trained: dict[str, FusionReport]) -> None:
    other = Layout.parse("fixed(tokens=200)", [])
    kb.build_for([], other)
    view = kb.reader(other).view
    pipeline = Pipeline.parse("bm25 + tfidf >> learned(model=ridge-known-item, missing=score)")
    with pytest.raises(SpecError, match=r"documents are cut by fixed.*, not "):
        pipeline.check(view, kb.services)


def test_changed_documents_are_told_and_other_documents_refused(
    tmp_path: Path, kb: KnowledgeBase, trained: dict[str, FusionReport]
) -> None:
    """A knowledge base changes daily: a few documents are a note, most of them another corpus."""
    home = Home(tmp_path)
    shutil.copytree(EXAMPLE, home.docs, dirs_exist_ok=True)
    pipeline = "bm25 + tfidf >> learned(model=ridge-known-item, missing=score)"
    files = sorted(home.docs.glob("*/*.md"))
    files[0].write_text("# Parking\n\nPark behind the branch.")
    home.sync("docs")
    with home.open() as other:
        shutil.copytree(kb.data / "models" / "ridge-known-item", other.data / "models" / "ridge-known-item")
        (fused,) = [entry for entry in ask(other, "cash", pipeline=pipeline).trace if entry.stage == "fuse"]
        # One of 115 is another: of the 116 there are in both corpora together, 2 are not in both.
        assert fused.note == "1.7% of the documents changed since the model was trained"
        assert "1.7% of the documents changed" in surefind("train", "list", kb=tmp_path).out
    for path in files[:70]:
        path.unlink()
    home.sync()
    with (
        home.open() as other,
        pytest.raises(SpecError, match=r"cannot be used here: \d\d% of the documents are different"),
    ):
        ask(other, "cash", pipeline=pipeline)
    assert "cannot be used: " in surefind("train", "list", kb=tmp_path).out


def test_unknown_model_names_those_there_are(kb: KnowledgeBase, trained: dict[str, FusionReport]) -> None:
    with pytest.raises(SpecError, match=r"no trained model 'ridge-known'\. Did you mean ridge-known-item"):
        ask(kb, "cash", pipeline="bm25 + tfidf >> learned(model=ridge-known)")
    for services in (LocalServices(), LocalServices(models_folder=Path("nowhere"))):
        with pytest.raises(SpecError, match=r"Train one with: surefind train fusion"):
            Learned().fuse_for([Query("x")], [], 10, services)


def test_a_path_is_no_model_name(kb: KnowledgeBase, trained: dict[str, FusionReport]) -> None:
    with pytest.raises(SpecError, match=r"no trained model"):
        Learned("../models/ridge-known-item").fuse_for([Query("x")], [], 10, kb.services)


def test_damaged_model_says_so(kb: KnowledgeBase, trained: dict[str, FusionReport]) -> None:
    shutil.copytree(kb.data / "models" / "ridge-known-item", kb.data / "models" / "damaged")
    (kb.data / "models" / "damaged" / "model.npz").unlink()
    with pytest.raises(StoreError, match=r"cannot be read .* Train it again"):
        ask(kb, "cash", pipeline="bm25 + tfidf >> learned(model=damaged)")
    shutil.rmtree(kb.data / "models" / "damaged")


def test_without_queries_it_says_what_to_use() -> None:
    with pytest.raises(SpecError, match=r"reads the queries.* Use rrf, convex or weighted"):
        Learned("x").fuse([], 10)


def test_a_model_trained_again_is_read_again(kb: KnowledgeBase, exam: Exam) -> None:
    train_fusion(kb, exam, "ridge", PAIR, name="mine", missing="score")
    pipeline = "bm25 + tfidf >> learned(model=mine, missing=score)"
    ask(kb, "cash", pipeline=pipeline)
    read = json.loads((kb.data / "models" / "mine" / "manifest.json").read_text(encoding="utf-8"))
    train_fusion(kb, exam, "ridge", PAIR[::-1], name="mine", missing="score")
    again = kb.data / "models" / "mine" / "manifest.json"
    changed = sealed({**unsealed(json.loads(again.read_text())), "created": read["created"]})
    again.write_text(json.dumps(changed), encoding="utf-8")
    with pytest.raises(SpecError, match="cannot be used here: the retrievers are bm25"):
        ask(kb, "cash", pipeline=pipeline)
    assert [p.name for p in (kb.data / "models").iterdir() if p.name.startswith(".")] == []


# ---------------------------------------------------------------- more than two, vectors, errors


def test_ndcg_takes_three_rankings(kb: KnowledgeBase, exam: Exam) -> None:
    made = train_fusion(kb, exam, "ndcg", [*PAIR, "bm25(k1=3.0, b=1.0, analyzer=plain)"], name="three")
    assert made.rows[-1].name == "oracle, best weights per query"
    assert len(ask(kb, "wire", pipeline=made.rows[0].spec).hits) == 10


def test_mlp_reads_the_vectors_of_the_queries(
    material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for grid in ("LAYERS", "BATCHES", "DROPOUTS"):
        monkeypatch.setattr(alpha, grid, getattr(alpha, grid)[:1])

    def embed(texts: Sequence[str]) -> Any:
        return ToyEmbedder().embed(texts)

    few = material.tuning.taken(np.arange(0, len(material.tuning.queries), 3))
    predictor = fit_mlp(replace(material, tuning=few, embed=embed, embedder="toy"), quiet).predictor
    half = material.held
    weights = predictor.weights(half.texts, half.rankings, embed)
    assert weights.shape == (len(half.queries), 2)
    assert weights.sum(axis=1) == pytest.approx(np.ones(len(weights)))
    predictor.save(tmp_path)
    again = MLP.load(tmp_path)
    assert np.array_equal(again.weights(half.texts, half.rankings, embed), weights)


def test_ndcg_is_not_below_static_where_it_was_chosen(fitted: Callable[[str], Fitted]) -> None:
    assert fitted("ndcg").metrics["expected_gain"] >= 0


@each(
    ("change", "says"),
    [
        ({"model": "forest"}, r"no model 'forest'\. .*Choices: mlp, ndcg, ridge, xgboost"),
        ({"name": "../x"}, r"cannot be called '../x'"),
        ({"model": "ridge", "retrieve": ["bm25", "tfidf", "dense"]}, r"ridge needs exactly two rankings, not 3"),
        ({"retrieve": ["bm25", "bm25"]}, r"two or more different retrievers"),
        ({"retrieve": ["bm25"]}, r"two or more different retrievers"),
        ({"model": "mlp"}, r"one of the retrievers must be dense"),
    ],
)
def test_wrong_calls_say_what_to_write(kb: KnowledgeBase, exam: Exam, change: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        train_fusion(kb, exam, **{"retrieve": PAIR, **change})


def test_too_few_questions_are_refused(kb: KnowledgeBase, exam: Exam) -> None:
    with pytest.raises(ExamError, match=r"has 59 questions .* at least 60"):
        train_fusion(kb, Exam("few", exam.queries[:59]), "ridge", PAIR)


@each(("model", "package"), [("xgboost", "xgboost"), ("ndcg", "xgboost"), ("ridge", "sklearn")])
def test_missing_package_gives_the_line_to_install(
    kb: KnowledgeBase, exam: Exam, monkeypatch: pytest.MonkeyPatch, model: str, package: str
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingPartError, match=r"pip install 'surefind\[learn\]'"):
        train_fusion(kb, exam, model, PAIR)


# ---------------------------------------------------------------- static weights


def test_weights_are_the_best_of_an_exhaustive_search(material: Material) -> None:
    half: Half = material.tuning
    weights, score = search(half, "minmax")
    assert weights.sum() == pytest.approx(1, abs=1e-3)
    every = [half.blended(np.array([1 - a, a]), "minmax").mean() for a in np.linspace(0, 1, 11)]
    assert score >= max(every) - 1e-3
    assert score == pytest.approx(half.blended(weights, "minmax").mean())


def test_weights_for_three_are_a_spec_to_paste(kb: KnowledgeBase, exam: Exam) -> None:
    made = train_weights(kb, exam, [*PAIR, "bm25(k1=3.0, b=1.0, analyzer=plain)"])
    assert spec.make("fuse", made.spec).weights == pytest.approx(made.weights)
    assert [row.name for row in made.rows][:4] == ["tuned weights", "equal weights", "bm25", "tfidf"]
    assert made.use in [row.spec for row in made.rows]
    assert len(made.useless) == made.weights.count(0)
    Pipeline.parse(made.use)


def test_questions_that_repeat_the_documents_recommend_nothing(kb: KnowledgeBase, exam: Exam) -> None:
    cut = replace(exam, queries=tuple(replace(query, family="first_sentence") for query in exam.queries))
    for made in (train_weights(kb, cut, PAIR), train_fusion(kb, cut, "ridge", PAIR, "cut", missing="score")):
        assert made.use == ""
        assert made.verdict.startswith("No recommendation: all ")
        assert "surefind exam collect" in made.verdict


# ---------------------------------------------------------------- doors


def test_commands(kb: KnowledgeBase, trained: dict[str, FusionReport]) -> None:
    call = ["train", "fusion", "--exam", "known-item", "--model", "ridge", "--retrieve", "bm25", "--retrieve", "tfidf"]
    ran = surefind(*call, "--name", "mine", kb=kb.folder)
    assert ran.code == 0, ran.err
    assert "best static" in ran.out
    assert "R² to α*: train" in ran.out
    assert "Saved:" in ran.out
    made = surefind(*call, "--name", "mine", "--json", kb=kb.folder).json
    assert made["name"] == "mine"
    assert Path(made["folder"], "manifest.json").exists()
    listed = surefind("train", "list", kb=kb.folder)
    assert "mine" in listed.out
    assert "up to date" in listed.out
    assert {m["name"] for m in surefind("train", "list", "--json", kb=kb.folder).json} >= {"mine", "ndcg-known-item"}


def test_list_goes_on_after_a_model_that_cannot_be_read(kb: KnowledgeBase, trained: dict[str, FusionReport]) -> None:
    models = kb.data / "models"
    for name, text in (("a-older", json.dumps(sealed({"format": 1}))), ("a-torn", '{"form')):
        (models / name).mkdir()
        (models / name / "manifest.json").write_text(text)
    listed = surefind("train", "list", kb=kb.folder)
    for name in ("a-older", "a-torn"):
        shutil.rmtree(models / name)
    assert listed.code == 0, listed.err
    assert "The model 'a-older' was written by another version of Surefind. Train it again." in listed.out
    assert "a-torn" in listed.out
    assert "ndcg-known-item" in listed.out


def test_weights_command(kb: KnowledgeBase) -> None:
    call = ["train", "weights", "--exam", "known-item", "--retrieve", "bm25", "--retrieve", "tfidf"]
    ran = surefind(*call, kb=kb.folder)
    assert ran.code == 0, ran.err
    assert "Spec: weighted(weights=[" in ran.out
    assert surefind(*call, "--json", kb=kb.folder).json["norm"] in ("floor", "minmax")


@each("options", [["--exam", "nonesuch"], ["--exam", "known-item", "--measure", "T1EM"]])
def test_command_errors_are_one_sentence(kb: KnowledgeBase, options: list[str]) -> None:
    ran = surefind("train", "fusion", *options, kb=kb.folder)
    assert ran.code == 2
    assert ran.err.startswith("surefind: ")


def test_list_without_models_says_how_to_train_one(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write("docs/a.md", "# Cash\n\nCount it.")
    home.sync("docs")
    assert "No trained models yet" in surefind("train", "list", kb=tmp_path).out


def test_preset_is_the_static_part_of_the_study_s_table() -> None:
    contenders, measures = preset("fusion")
    assert [str(c.pipeline.fuse) for c in contenders] == [f"tm2c2(alpha={a})" for a in (0.0, 0.3, 0.5, 0.7, 1.0)]
    assert measures == ("nDCG@10", "T1EM", "T1C", "T1O", "MRR")


def test_scores_are_those_of_a_slow_reference(material: Material) -> None:
    """Blending and nDCG@10 once more, one query at a time, without any of our arrays."""
    half = material.held
    alphas = np.random.default_rng(5).random(len(half.queries))
    found = half.blended(np.stack([1 - alphas, alphas], axis=1), "floor")
    assert found == pytest.approx([slow_ndcg(material, q, alpha) for q, alpha in enumerate(alphas)])


def slow_ndcg(material: Material, q: int, alpha: float) -> float:
    scores: dict[int, float] = {}
    for ranking, weight in zip(material.held.rankings, (1 - alpha, alpha), strict=True):
        ordinals, row = ranking.row(q)
        for ordinal, score in zip(ordinals.tolist(), row.tolist(), strict=True):
            scores[ordinal] = scores.get(ordinal, 0.0) + weight * score / max(row.tolist())
    best = sorted(scores, key=lambda ordinal: (-round(scores[ordinal], 12), ordinal))
    documents = list(dict.fromkeys(material.view.spans().document(ordinal) for ordinal in best))
    grades = {judgment.document: float(judgment.grade) for judgment in material.held.queries[q].judgments}
    ideal = sorted(grades.values(), reverse=True)[:10]
    gained = [grades.get(document, 0.0) for document in documents[:10]]
    return float(_discounted(gained) / _discounted(ideal))


def _discounted(gains: list[float]) -> float:
    return sum(gain / np.log2(rank + 2) for rank, gain in enumerate(gains))


def test_bench_asks_a_model_only_what_it_did_not_learn_from(
    kb: KnowledgeBase, exam: Exam, trained: dict[str, FusionReport]
) -> None:
    from surefind.lab.bench.plan import Contender, Plan
    from surefind.lab.bench.run import run_bench

    learned = Pipeline.parse("bm25 + tfidf >> learned(model=ridge-known-item, missing=score)")
    plan = Plan((Contender("bm25", Pipeline.parse("bm25")), Contender("learned", learned)), exam, (NDCG,))
    report = run_bench(kb, plan, "").report
    asked = {query.id for query, out in zip(exam.queries, held_out(exam.queries), strict=True) if out}
    assert set(report.query_ids) == asked
    assert report.exam.name == "known-item-held-out"
    (drawn,) = report.learned
    assert (drawn.name, drawn.model, drawn.exam) == ("learned", "ridge", "known-item v1")
    assert drawn.contributions == "|coefficient|"
    assert set(drawn.importance) == {"words", "has_digits", "has_wh_word", "has_acronym"}
    assert len(drawn.alphas) == len(asked)


@each(("model", "features"), [("xgboost", 25), ("ndcg", 37)])
def test_predicted_and_oracle_alphas_are_kept_for_the_report(
    kb: KnowledgeBase, material: Material, trained: dict[str, FusionReport], model: str, features: int
) -> None:
    about, training = Learned(f"{model}-known-item").about(kb.services)
    stars, predicted, families = zip(*training.alphas, strict=True)
    assert list(stars) == pytest.approx(material.held.alphas, abs=1e-3)
    predictor = load_predictor(model, kb.data / "models" / f"{model}-known-item")
    weights = predictor.weights(material.held.texts, material.held.rankings, material.embed)
    assert list(predicted) == pytest.approx(weights[:, 1], abs=1e-3)
    assert list(families) == [query.family for query in material.held.queries]
    assert len(about.metrics["shap"]) == features


def test_bench_leaves_out_questions_of_another_exam_that_were_learnt_from(
    kb: KnowledgeBase, exam: Exam, trained: dict[str, FusionReport]
) -> None:
    """An exam written again shares questions with the one before: those would be answered from memory."""
    from surefind.lab.bench.plan import Contender, Plan
    from surefind.lab.bench.run import unseen

    out = held_out(exam.queries)
    learnt = [query for query, held in zip(exam.queries, out, strict=True) if not held]
    fresh = [query for query, held in zip(exam.queries, out, strict=True) if held]
    learned = Contender("l", Pipeline.parse("bm25 + tfidf >> learned(model=ridge-known-item, missing=score)"))
    mixed = [replace(query, id=f"new-{query.id}", text=query.text.upper()) for query in learnt[:7]] + fresh[:3]
    plan = unseen(Plan((learned,), Exam("again", tuple(mixed)), (NDCG,)), kb.services)
    assert [query.id for query in plan.exam.queries] == [query.id for query in fresh[:3]]
    with pytest.raises(ExamError, match=r"Every question of .* was used to train l,"):
        unseen(Plan((learned,), Exam("old", tuple(learnt)), (NDCG,)), kb.services)


def test_crossed_every_question_is_judged_by_a_model_that_has_not_seen_it(
    kb: KnowledgeBase, exam: Exam, material: Material
) -> None:
    made = train_fusion(kb, exam, "ridge", PAIR, name="crossed", missing="score", cross=True)
    scores = []
    for side in (material, material.swapped):
        predictor = MODELS["ridge"](side, quiet).predictor
        scores.append(side.held.score(predictor.fuse(side.held.texts, side.held.rankings, side.embed, 100)))
    assert made.rows[0].mean == pytest.approx(np.concatenate(scores).mean(), abs=1e-5)
    assert made.judged.startswith("both halves")


def test_bench_asks_everything_where_nothing_was_learnt(kb: KnowledgeBase, exam: Exam) -> None:
    from surefind.lab.bench.plan import Contender, Plan
    from surefind.lab.bench.run import run_bench

    plan = Plan((Contender("bm25", Pipeline.parse("bm25")),), exam, (NDCG,))
    assert len(run_bench(kb, plan, "").report.query_ids) == len(exam.queries)


@pytest.fixture
def copied(kb: KnowledgeBase, trained: dict[str, FusionReport], tmp_path: Path) -> Iterator[KnowledgeBase]:
    """A copy without what other tests have trained."""
    shutil.copytree(kb.folder, tmp_path / "copy")
    for model in (tmp_path / "copy" / ".surefind" / "models").iterdir():
        if not model.name.endswith("-known-item"):
            shutil.rmtree(model)
    with KnowledgeBase.open(tmp_path / "copy") as base:
        yield base


def test_the_fusion_preset_takes_the_models_for_its_retrievers_that_fit(copied: KnowledgeBase) -> None:
    from surefind.lab.bench.names import _trained

    found = _trained(copied, Pipeline.parse("bm25 + tfidf >> tm2c2"))
    assert {c.name for c in found} == {f"learned {model}-known-item" for model in ("ridge", "xgboost", "ndcg")}
    (scored,) = [c for c in found if c.name == "learned ndcg-known-item"]
    assert str(scored.pipeline.fuse) == "learned(model=ndcg-known-item, missing=score)"
    for other in (
        "bm25(k1=1.2) + tfidf >> rrf",
        "tfidf + bm25 >> rrf",
        "bm25 + tfidf @50 >> rrf",
        "bm25 + dense >> rrf",
    ):
        assert _trained(copied, Pipeline.parse(other)) == []


def test_the_quote_counts_the_questions_that_will_be_asked(
    kb: KnowledgeBase, exam: Exam, trained: dict[str, FusionReport]
) -> None:
    call = ["bench", "--exam", "known-item", "-p", "bm25 + tfidf >> learned(model=ridge-known-item, missing=score)"]
    ran = surefind(*call, "--dry-run", kb=kb.folder)
    assert f"1 configurations × {sum(held_out(exam.queries))} questions" in ran.out, ran.err


# ---------------------------------------------------------------- the study's split


def test_split_of_the_study_is_over_all_questions(kb: KnowledgeBase, exam: Exam) -> None:
    made = gather(kb, exam, PAIR, NDCG, split="70/15/15")
    assert made.validation is not None
    total = len(exam.queries)
    assert len(made.held.queries) == pytest.approx(0.15 * total, abs=5)
    assert len(made.validation) == pytest.approx(0.15 * total, abs=5)
    assert len(made.tuning.queries) + len(made.held.queries) == total
    assert not {q.id for q in made.tuning.queries} & {q.id for q in made.held.queries}
    families = {q.family for q in exam.queries if sum(p.family == q.family for p in exam.queries) >= 7}
    for part in (made.held.queries, [made.tuning.queries[i] for i in made.validation]):
        assert families <= {q.family for q in part}


def test_model_is_chosen_and_tested_by_the_study_split(kb: KnowledgeBase, exam: Exam) -> None:
    made = train_fusion(kb, exam, "ridge", PAIR, name="studied", split="70/15/15")
    assert made.judged == "15% of the questions, chosen at random"
    assert made.metrics["r2_test"] == pytest.approx(made.metrics["r2_held_out"])
    assert made.questions.tuning > 5 * made.questions.held_out


def test_cross_needs_halves(kb: KnowledgeBase, exam: Exam) -> None:
    with pytest.raises(SpecError, match="cannot be combined"):
        train_fusion(kb, exam, "ridge", PAIR, cross=True, split="70/15/15")
    with pytest.raises(SpecError, match="There is no split 'thirds'"):
        train_fusion(kb, exam, "ridge", PAIR, split="thirds")  # type: ignore[arg-type]
