"""The built-in pipelines: which one is the default, known by name everywhere, rows of the default benchmark."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import each
from exam_helpers import query, surefind
from helpers import WORDS, Home
from http_helpers import serving
from surefind import Pipeline
from surefind.base.access import Access
from surefind.kb.settings.config import default_settings, load_settings
from surefind.kb.settings.template import BASES, BUILT_IN, LINKED, RERANKED
from surefind.lab.bench.names import compared, plan_for
from surefind.lab.bench.plan import LeftOut, Plan, about_left_out
from surefind.lab.exam.model import Exam, Judgment

OWN_CAREFUL = '[pipelines.careful]\nretrieve = ["bm25", "tfidf"]\nfuse = "rrf"\n'
HYBRID_CHOSEN = '[search]\npipeline = "hybrid"\n'
OWN_READER = '[pipelines.reader]\nretrieve = ["bm25"]\nrerank = ["cross_encoder"]\n'
HYBRID, PAIR = (Pipeline.parse(BASES[name]) for name in ("hybrid", "pair"))
CAREFUL = Pipeline.parse(f"{BASES['hybrid']} >> {RERANKED['careful']}")


@pytest.fixture
def base(home: Home) -> Home:
    """Two documents, and `hybrid`."""
    home.configure(HYBRID_CHOSEN)
    home.write("docs/a.md", "# Cash\n\nThe teller counts cash twice before the vault opens.")
    home.write("docs/b.md", "# Wires\n\nThe wire desk sends wires until three.")
    home.sync("docs")
    return home


CASES = [("", "pair", PAIR), (HYBRID_CHOSEN, "hybrid", HYBRID), (WORDS, "words", PAIR)]


@each(("settings", "default", "base"), CASES)
def test_careful_and_thorough_reread_the_default(home: Home, settings: str, default: str, base: Pipeline) -> None:
    home.configure(settings)
    found = load_settings(home.folder / "surefind.toml")
    assert found.pipeline == default and list(found.known)[:4] == ["hybrid", "pair", "careful", "thorough"]
    linked = base if found.base == "hybrid" else Pipeline.parse(LINKED)
    assert [found.known[name].path for name in RERANKED] == [str(base), str(linked)]
    assert set(found.pipelines) & set(BUILT_IN) <= {default, "hybrid"}
    walks = [retriever for retriever in found.retrievers if retriever.signal == "graph"]
    assert bool(walks) == (default == "pair")  # a sync builds for no other built-in pipeline


@each("name", ["pair", "hybrid", "careful", "thorough"])
def test_a_pipeline_of_your_own_with_a_built_in_name_needs_no_more_than_it_says(home: Home, name: str) -> None:
    home.configure(f'[search]\npipeline = "{name}"\n\n[pipelines.{name}]\nretrieve = ["bm25"]\n')
    assert [str(r) for r in load_settings(home.folder / "surefind.toml").retrievers] == [str(PAIR.retrieve[0])]


def test_walks_change_the_order_of_questions_with_two_names_alone(home: Home) -> None:
    home.configure("")
    home.write("docs/a.md", "# Jane Roe\n\nShe was born in Lisbon and plays chess.")
    home.write("docs/b.md", "# Oak Street\n\nThe branch at the river is run by Jane Roe.")
    home.write("docs/c.md", "# Elm Street\n\nThe branch at the station is run by somebody else.")
    home.sync("docs")
    pipelines = [Pipeline.parse(text) for text in (BASES["pair"], LINKED)]
    with home.open() as kb:
        assert not kb.missing(kb.settings.known["thorough"].retrieve)
        for question, same in (
            ("who runs the branch at the river", True),
            ("Was the head of Oak Street or that of Elm Street born in Lisbon?", False),
        ):
            found = [kb.search(question, Access.public(), pipeline=pipeline).hits for pipeline in pipelines]
            assert [hit.document for hit in found[0]] == [hit.document for hit in found[1]] or not same
            walked = [found[1][0].score - hit.score for hit in found[1]]
            plain = [found[0][0].score - hit.score for hit in found[0]]
            assert (walked == pytest.approx([10 / 14 * gap for gap in plain], abs=1e-4)) is same


def test_an_older_knowledge_base_keeps_its_default(tmp_path: Path) -> None:
    new, old = Home(tmp_path / "new"), Home(tmp_path / "old")
    for home in (new, old):
        home.configure("")
        home.write("docs/a.md", "# Cash\n\nThe teller counts cash.")
        home.sync("docs")
    (old.folder / ".surefind" / "default-pipeline").unlink()
    for home, default in ((new, "pair"), (old, "hybrid")):
        with home.open() as kb:
            assert kb.settings.pipeline == default
            assert kb.search("cash", Access.public()).hits
        home.write("docs/b.md", "# Wires\n\nThe wire desk sends wires.")
        home.sync("docs")
        assert surefind("use", "careful", kb=home.folder).code == 0
        with home.open() as kb:
            assert kb.settings.base == default and len(kb.pipeline().retrieve) == len(
                kb.settings.known[default].retrieve
            )
    assert default_settings().auto and default_settings().pipeline == "pair"


def test_doctor_proposes_the_better_default(base: Home) -> None:
    shown = surefind("doctor", kb=base.folder).out
    assert "pair finds more, and its vectors of 2 passages take" in shown and "surefind use pair" in shown
    assert surefind("use", "pair", kb=base.folder).code == 0
    assert "finds more" not in surefind("doctor", kb=base.folder).out


def test_a_second_encoder_that_takes_too_long_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless somebody asks for it."""
    home = Home(tmp_path)
    home.configure("")
    home.write(
        "docs/a.md",
        "\n\n".join(
            f"# Part {n}\n\nThe teller of branch {n} counts cash twice before the vault opens at {n}." * 4
            for n in range(200)
        ),
    )
    monkeypatch.setattr("surefind.kb.completing.TOO_LONG", 0.0)
    told: list[str] = []
    with home.open() as kb:
        kb.sync(home.folder / "docs", tell=told.append)
        assert kb.settings.pipeline == "hybrid" and kb.settings.auto and not kb.missing(kb.settings.retrievers)
        assert any("so the default pipeline is hybrid" in text and "surefind use pair" in text for text in told)
        assert kb.missing(PAIR.retrieve)
    with home.open() as kb:
        assert kb.settings.pipeline == "hybrid" and kb.complete() == []
    assert surefind("use", "pair", kb=home.folder).code == 0
    with home.open() as kb:
        kb.complete()
        assert kb.settings.pipeline == "pair" and not kb.settings.auto and not kb.missing(PAIR.retrieve)


def test_a_pipeline_of_the_settings_with_the_same_name_wins(home: Home) -> None:
    home.configure(WORDS + OWN_CAREFUL)
    found = load_settings(home.folder / "surefind.toml")
    assert str(found.named("careful")).endswith("rrf(k=60.0)")
    with home.open() as kb:
        (row,) = (one for one in compared(kb, None, [], [], []).contenders if one.name == "careful")
    assert not row.pipeline.rerank


def test_search_takes_the_name_and_the_spec_has_it(base: Home) -> None:
    ran = surefind("search", "wire desk", "-p", "careful", "--json", kb=base.folder)
    assert ran.code == 0 and ran.json["hits"][0]["document"] == "b.md"
    with base.open() as kb:
        rows = compared(kb, None, ["hybrid", str(CAREFUL), "bm25"], [], []).contenders
    assert [one.name for one in rows] == ["hybrid", "careful", "bm25"]


def test_use_writes_the_name_alone(base: Home) -> None:
    assert surefind("use", "careful", kb=base.folder).code == 0
    text = (base.folder / "surefind.toml").read_text(encoding="utf-8")
    assert 'pipeline = "careful"' in text and "[pipelines" not in text
    found = load_settings(base.folder / "surefind.toml")
    assert found.pipelines["careful"] == CAREFUL  # sync builds its indexes
    assert surefind("use", "--undo", kb=base.folder).code == 0
    assert (base.folder / "surefind.toml").read_text(encoding="utf-8") == HYBRID_CHOSEN


def test_status_lists_them(base: Home) -> None:
    assert "careful = bm25(" in surefind("status", kb=base.folder).out


def exam_of(count: int) -> Exam:
    return Exam("staff", tuple(query(str(i), f"wire {i}", Judgment("b.md")) for i in range(count)))


def planned(base: Home, count: int, *named: str) -> Plan:
    with base.open() as kb:
        return plan_for(kb, exam_of(count), compared(kb, None, list(named), [], []), Access.owner())


def test_the_default_comparison_has_them(base: Home) -> None:
    plan = planned(base, 100)
    assert {*BUILT_IN, "BM25"} <= {one.name for one in plan.contenders} and not plan.left_out


def test_a_reranker_is_asked_every_question_or_is_not_in_the_table(base: Home) -> None:
    plan = planned(base, 101)
    assert {"hybrid", "pair"} <= {one.name for one in plan.contenders}
    assert [one.name for one in plan.left_out] == ["careful", "thorough"]
    assert about_left_out(exam_of(101), plan.left_out[:1], ["*"], restricted=True) == (
        "Not compared: careful. Its reranker would read for each of the 101 questions, about 75 seconds on two cores. "
        "To add it: surefind bench --exam staff --as '*' -p hybrid -p careful."
    )
    named = planned(base, 101, "hybrid", "careful")
    assert [one.name for one in named.contenders] == ["hybrid", "careful"] and not named.left_out


@pytest.mark.parametrize("settings", ['[search]\npipeline = "careful"\n', WORDS + OWN_READER])
def test_a_reranker_that_somebody_chose_is_asked(base: Home, settings: str) -> None:
    base.configure(settings)
    plan = planned(base, 101)
    assert any(one.pipeline.rerank for one in plan.contenders)


def test_the_search_page_offers_those_that_have_indexes(base: Home, tmp_path: Path) -> None:
    with serving(base.folder) as server, server.client() as http:
        page = http.get("/", headers={"Accept": "text/html"}).text
        found = http.get("/?query=wire+desk&pipeline=careful", headers={"Accept": "text/html"})
    assert page.count(">careful</option>") == 2  # to search with, and to compare with
    assert found.status_code == 200 and "Wires" in found.text
    words = Home(tmp_path / "words")
    words.write("docs/a.md", "# Cash\n\nThe teller counts cash.")
    words.sync("docs")
    with serving(words.folder) as server, server.client() as http:
        assert "careful" not in http.get("/", headers={"Accept": "text/html"}).text


def test_the_default_comparison_does_not_embed_many_passages_again(base: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefind.lab.bench.names._EMBEDDED", 1)
    with base.open() as kb:
        what = compared(kb, None, [], [], [])
        assert [one.name for one in what.left_out] == ["pair"] and "pair" not in [one.name for one in what.contenders]
        named = compared(kb, None, ["hybrid", "pair"], [], [])
        assert [one.name for one in named.contenders] == ["hybrid", "pair"] and not named.left_out
        kb.build_for(PAIR.retrieve)
        assert compared(kb, None, [], [], []).left_out == ()  # its vectors are there


def test_a_report_says_that_the_pair_was_left_out(base: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefind.lab.bench.names._EMBEDDED", 1)
    ran = surefind("bench", kb=base.folder)
    said = " ".join(ran.out.split())
    assert "Not compared: pair. Its second encoder would read all passages first, about 5 seconds" in said
    assert "surefind bench --exam known-item -p hybrid -p pair" in said


def test_a_report_for_some_says_nothing_about_the_number_of_all_passages() -> None:
    said = about_left_out(exam_of(2), (LeftOut("pair", 123_456),), (), restricted=True)
    assert "all passages first, which takes minutes. To add it" in said


def test_the_pair_finds_with_both_encoders(base: Home) -> None:
    used = surefind("use", "pair", kb=base.folder)
    assert used.code == 0 and "From now on a sync also builds dense(model=arctic)." in used.out
    ran = surefind("search", "until when are wires sent", "--json", kb=base.folder)
    assert ran.code == 0 and ran.json["hits"][0]["document"] == "b.md"
    assert [str(one) for one in PAIR.retrieve[1:]] == ["dense(model=minilm)", "dense(model=arctic)"]
