"""Judging encoders with `training/`: settings are chosen on one half of the questions and judged on the other."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "training"))
sys.path.append(str(ROOT / "benchmarks"))

from halves import gain, half_of, judged, report  # noqa: E402
from judge_encoders import Asked, drawn, scored, systems_of  # noqa: E402
from surefind.engine.search.pipeline import Pipeline  # noqa: E402
from surefind.kb import KnowledgeBase  # noqa: E402
from surefind.lab.bench.engine import OWNER, Bench  # noqa: E402
from surefind.lab.bench.plan import Contender, Plan  # noqa: E402
from surefind.lab.exam.formats.collections import read_beir  # noqa: E402
from surefind.lab.exam.formats.library import Library  # noqa: E402
from surefind.lab.measure.ranks import parse_measure  # noqa: E402


def test_halves_are_of_equal_size_and_always_the_same() -> None:
    first = half_of("boolq", 301)
    assert first.sum() == 150
    assert (first == half_of("boolq", 301)).all()
    assert (first != half_of("scifact", 301)).any()


def test_a_setting_is_never_judged_on_the_questions_that_chose_it() -> None:
    first = {name: half_of(name, 40) for name in ("a", "b")}
    lucky = {name: np.where(half, 1.0, 0.0) for name, half in first.items()}  # good on the first half alone
    steady = {name: np.full(40, 0.4) for name in first}
    found = judged({"lucky": lucky, "steady": steady})
    assert found.settings == ("steady", "lucky")
    for name, half in first.items():
        assert (found.scores[name][half] == 0.4).all()
        assert (found.scores[name][~half] == 0.0).all()


def test_collections_count_alike_whatever_their_size() -> None:
    small, large = np.full(10, 1.0), np.full(1000, 0.2)
    found = judged({"one": {"small": small, "large": large * 0}, "two": {"small": small * 0, "large": large}})
    assert found.settings == ("one", "one")
    assert found.mean(["small", "large"]) == pytest.approx(50)


def test_a_gain_is_paired_by_question() -> None:
    dice = np.random.default_rng(1)
    scores = {name: dice.random(50) for name in ("a", "b")}
    other = judged({"": scores})
    one = judged({"": {name: row + 0.02 for name, row in scores.items()}})
    assert gain(one, other, ["a", "b"]) == pytest.approx((2.0, 2.0, 2.0))


def test_a_report_names_every_system_and_its_own_setting() -> None:
    dice = np.random.default_rng(2)
    names = ("sample", "boolq")
    table = {
        system: {at: {name: dice.random(30) for name in names} for at in settings}
        for system, settings in {
            "minilm alone": [""], "other alone": [""], "minilm + other alone": ["0.50:0.50"],
            "bm25": [""], "minilm": ["α=0.5"], "other": ["α=0.7"], "minilm + other": ["0.33:0.33:0.33"],
        }.items()
    }  # fmt: skip
    text = report(table, "minilm", ("sample",))
    assert text.startswith("2 collections, 1 of them (sample)")
    lines = {line[:28].strip(): line for line in text.splitlines() if "  |  " in line}
    assert set(lines) == set(table)
    assert lines["other"].endswith("α=0.7")
    assert "+0.00 [+0.0, +0.0]" in lines["minilm"]
    assert "minilm + other over other: " in text
    assert "minilm + other alone over other alone: " in text


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """Twelve questions; question q asks for document q. 60 documents in all."""
    source = tmp_path / "data" / "colours"
    (source / "qrels").mkdir(parents=True)
    words = ["red", "green", "blue", "yellow", "brown", "black", "white", "grey", "pink", "orange", "purple", "gold"]
    corpus = [f"The {words[n % 12]} form number {n} is kept for {n} years." for n in range(60)]
    rows = [{"_id": str(n), "title": f"Form {n}", "text": text} for n, text in enumerate(corpus)]
    asked = [{"_id": f"q{n}", "text": f"how long do we keep the {words[n]} form number {n}"} for n in range(12)]
    (source / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (source / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked), encoding="utf-8")
    lines = ["query-id\tcorpus-id\tscore", *(f"q{n}\t{n}\t1" for n in range(12))]
    (source / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return source


def test_a_drawn_collection_keeps_all_documents_that_are_judged(collection: Path, tmp_path: Path) -> None:
    target = tmp_path / "drawn"
    size = max(map(len, (collection / "corpus.jsonl").read_text(encoding="utf-8").splitlines()))
    drawn(collection, target, 5, 20 * size)
    documents = {json.loads(line)["_id"] for line in (target / "corpus.jsonl").open(encoding="utf-8")}
    questions = {json.loads(line)["_id"] for line in (target / "queries.jsonl").open(encoding="utf-8")}
    judgments = [line.split("\t") for line in (target / "qrels" / "test.tsv").read_text("utf-8").splitlines()[1:]]
    assert len(questions) == 5
    assert {query for query, _, _ in judgments} == questions
    assert {document for _, document, _ in judgments} <= documents
    assert 20 <= len(documents) < 60
    drawn(collection, target, 12, 3 * size)  # too little text for all questions
    assert 3 <= len((target / "queries.jsonl").read_text(encoding="utf-8").splitlines()) < 12


def test_scores_are_those_of_a_benchmark(collection: Path, tmp_path: Path) -> None:
    folder = tmp_path / "base"
    folder.mkdir()
    texts = {
        ("bm25", ""): "bm25",
        ("one alone", ""): "dense",
        ("one", "α=0.7 @50"): "bm25 + dense @50 >> convex(alpha=0.7, missing=score)",
        ("one", "α=0.2 @100"): "bm25 + dense >> convex(alpha=0.2, missing=score)",
    }
    with KnowledgeBase.open(folder) as kb:
        asked = Asked(kb, "colours", collection.parent, tmp_path / "parted")
        found = {(system, at): row for system, at, row in scored(asked, {"one": "minilm"}, set())}
        exam = read_beir(collection, Library(kb.documents(OWNER)))
        contenders = tuple(Contender(str(key), Pipeline.parse(text)) for key, text in texts.items())
        measure = parse_measure("nDCG@10")
        wanted = Bench(kb).score(Plan(contenders, exam, (measure,))).scores[str(measure)]
    for column, key in enumerate(texts):
        assert np.allclose(found[key], wanted[:, column]), key
    assert {system for system, _ in found} == set(systems_of(["one"]))
