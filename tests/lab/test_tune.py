"""`surefind tune`: what is tried, what wins, and when it is adopted."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from exam_helpers import copy_few, surefind
from helpers import Home
from surefind import Access, KnowledgeBase, Pipeline
from surefind.base.errors import ExamError
from surefind.kb.settings.config import default_settings
from surefind.lab.bench.engine import Bench
from surefind.lab.bench.plan import Contender, from_texts
from surefind.lab.bench.recommendation import chooses
from surefind.lab.exam.known_item import generate
from surefind.lab.exam.model import Exam
from surefind.lab.exam.store import ExamStore
from surefind.lab.measure.ranks import parse_measure
from surefind.lab.tune.search import Standing, Tuner, halves
from surefind.lab.tune.space import TuningLimits, candidates, near, usual_layouts
from surefind.lab.tune.view import result

NDCG = parse_measure("nDCG@10")
SETTINGS = """
[search]
pipeline = "words"
[pipelines.words]
retrieve = ["tfidf()"]
"""
TRIED = ("bm25", "bm25(k1=0.0, b=0.0)", "tfidf")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A knowledge base that searches with tfidf, and an exam whose questions count as real ones."""
    home = Home(tmp_path_factory.mktemp("tune"))
    copy_few(home.docs)
    home.write("surefind.toml", SETTINGS)
    home.sync("docs")
    with home.open() as kb:
        made = generate(kb.documents(Access.owner()), per_family=60)
        store = ExamStore(kb.data / "exams")
        store.save(Exam("cut", made.queries))
        store.save(Exam("real", tuple(replace(query, family="asked") for query in made.queries)))
    return home.folder


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    made = tmp_path / "kb"
    shutil.copytree(built, made)
    return made


def exam_of(kb: KnowledgeBase, name: str = "real") -> Exam:
    return ExamStore(kb.data / "exams").load(name)


def contenders(kb: KnowledgeBase) -> list[Contender]:
    return candidates(kb.settings, from_texts(TRIED, kb.settings.pipelines))


# ---------------------------------------------------------------- what is tried


def test_the_grid_has_the_current_configuration_first_and_nothing_twice() -> None:
    settings = default_settings()
    found = candidates(settings)
    assert str(found[0].pipeline) == str(settings.pipelines[settings.pipeline])
    assert len({str(one) for one in found}) == len(found)
    kinds = {(len(one.pipeline.retrieve), bool(one.pipeline.rerank)) for one in found}
    assert kinds == {(3, False), (1, False), (2, False), (1, True), (2, True)}


def test_layouts_multiply_the_grid_and_the_current_one_is_not_repeated() -> None:
    settings = default_settings()
    plain, cut = candidates(settings), candidates(settings, layouts=usual_layouts())
    assert sum(one.layout is None for one in cut) == len(plain)
    assert {str(one.layout) for one in cut if one.layout} == {
        str(one) for one in usual_layouts() if str(one) != str(settings.layout)
    }


def test_steps_around_a_configuration_change_one_thing_each() -> None:
    start = Contender("a", Pipeline.parse("bm25 + dense >> convex(alpha=0.5, missing=score) >> cross_encoder"))
    found = [str(one.pipeline) for one in near(start)]
    assert len(found) == len(set(found)) == 2 + 4 + 2 + 2
    assert str(start.pipeline) not in found
    assert any("alpha=0.55" in text for text in found) and any("@200" in text for text in found)


# ---------------------------------------------------------------- the race


def test_the_best_wins_and_is_confirmed_on_other_questions(folder: Path) -> None:
    with KnowledgeBase.open(folder) as kb:
        seen: list[Standing] = []
        tuner = Tuner(Bench(kb), exam_of(kb), NDCG, TuningLimits(), watch=seen.append)
        found = tuner.run(contenders(kb))
        assert found.winner is not None and found.confirmed is not None
        assert found.confirmed.questions == len(tuner.held)
        assert not {query.id for query in tuner.tuning} & {query.id for query in tuner.held}
        means = {c.name: found.races[0][1].means[i] for i, c in enumerate(found.races[0][0])}
        assert means["bm25(k1=0.0, b=0.0)"] < means["bm25"]
        assert found.winner.name != "bm25(k1=0.0, b=0.0)"
        assert [one.total for one in seen] == [len(tuner.tuning)] * len(seen) and len(seen) > 1
        assert seen[0].left > 0 and seen[-1].left == 0


def test_the_time_left_ends_with_the_limit(folder: Path) -> None:
    with KnowledgeBase.open(folder) as kb:
        seen: list[Standing] = []
        Tuner(Bench(kb), exam_of(kb), NDCG, TuningLimits(), minutes=0, watch=seen.append).run(contenders(kb))
        assert [one.left for one in seen] == [0.0]


def test_questions_cut_from_the_documents_do_not_tune(folder: Path) -> None:
    with KnowledgeBase.open(folder) as kb, pytest.raises(ExamError, match="0 questions that may choose"):
        halves(
            replace(exam_of(kb, "cut"), queries=tuple(q for q in exam_of(kb, "cut").queries if "head" not in q.family))
        )


def test_few_questions_race_and_confirm_nothing(folder: Path) -> None:
    with KnowledgeBase.open(folder) as kb:
        every = exam_of(kb)
        few = replace(every, queries=tuple(query for query in every.queries if chooses(query))[:20])
        tuner = Tuner(Bench(kb), few, NDCG, TuningLimits())
        found = tuner.run(contenders(kb))
        assert (len(tuner.tuning), tuner.held, found.few, found.confirmed, found.better) == (20, [], 20, None, False)
        assert len(found.races) == 1, "small steps around the best would be noise"
        said = " ".join(result(found))
        assert "20 questions can drop what is clearly worse" in said and "that takes 64 real questions" in said
        with pytest.raises(ExamError, match=r"has 15 questions .* at least 16, and 64 to confirm"):
            halves(replace(few, queries=few.queries[:15]))


def test_a_limit_leaves_candidates_out_and_says_why(folder: Path) -> None:
    with KnowledgeBase.open(folder) as kb:
        found = Tuner(Bench(kb), exam_of(kb), NDCG, TuningLimits(index_mb=1e-6)).run(contenders(kb))
        assert found.winner is not None and found.winner.name == "current"
        assert found.kept and not found.better
        assert "MB of indexes are above" in found.over["bm25"]


def test_without_time_the_best_of_the_first_block_is_shown(folder: Path) -> None:
    with KnowledgeBase.open(folder) as kb:
        found = Tuner(Bench(kb), exam_of(kb), NDCG, TuningLimits(), minutes=0).run(contenders(kb))
        assert found.stopped == "the time was over"
        assert found.winner is not None and found.races[0][1].questions.max() == 16


def test_an_interrupted_race_keeps_the_best_so_far(folder: Path) -> None:
    def stop(standing: Standing) -> None:
        if standing.race.questions.max() >= 32:
            raise KeyboardInterrupt

    with KnowledgeBase.open(folder) as kb:
        tuner = Tuner(Bench(kb), exam_of(kb), NDCG, TuningLimits(), watch=stop)
        with pytest.raises(KeyboardInterrupt):
            tuner.run(contenders(kb))
        assert tuner.found.winner is not None and tuner.found.confirmed is None
        again = Tuner(Bench(kb), exam_of(kb), NDCG, TuningLimits()).run(contenders(kb))
        assert again.confirmed is not None


# ---------------------------------------------------------------- the command


def options(*more: str) -> list[str]:
    return ["tune", "--exam", "real", *(part for text in TRIED for part in ("-p", text)), *more]


def test_a_better_winner_is_adopted_with_yes(folder: Path) -> None:
    ran = surefind(*options("--json", "--yes"), kb=folder)
    assert ran.code == 0, ran.err
    result = ran.json
    text = (folder / "surefind.toml").read_text(encoding="utf-8")
    if result["confirmed"]["better"]:
        assert result["adopted"]["changed"] and "bm25" in text
        assert surefind("use", "--undo", kb=folder).code == 0
        assert (folder / "surefind.toml").read_text(encoding="utf-8") == SETTINGS
    else:
        assert result["adopted"] is None and text == SETTINGS


def test_without_yes_and_terminal_nothing_is_written(folder: Path) -> None:
    ran = surefind(*options(), kb=folder)
    assert ran.code == 0, ran.err
    assert (folder / "surefind.toml").read_text(encoding="utf-8") == SETTINGS
    assert "candidates left" in ran.err and "s more" in ran.err
    assert "questions that the race never saw" in ran.out


def test_a_dry_run_lists_the_candidates(folder: Path) -> None:
    ran = surefind(*options("--dry-run"), kb=folder)
    assert "bm25(k1=0.0, b=0.0)" in ran.out
    assert "This was a dry run: nothing was measured." in ran.out


def test_an_unknown_exam_is_named(folder: Path) -> None:
    ran = surefind("tune", "--exam", "nothing", kb=folder)
    assert ran.code != 0 and "nothing" in ran.err
