"""The built-in pipelines `hybrid`, `careful` and `pair`: known by name everywhere, rows of the default benchmark."""

from __future__ import annotations

from pathlib import Path

import pytest

from exam_helpers import surefind
from helpers import WORDS, Home
from http_helpers import serving
from surefind import Pipeline
from surefind.bench.comparing import compared
from surefind.bench.prior_table import known
from surefind.settings.config import load_settings
from surefind.settings.template import BUILT_IN

OWN_CAREFUL = '[pipelines.careful]\nretrieve = ["bm25", "tfidf"]\nfuse = "rrf"\n'
CAREFUL = Pipeline.parse(BUILT_IN["careful"])
PAIR = Pipeline.parse(BUILT_IN["pair"])


@pytest.fixture
def base(home: Home) -> Home:
    """Two documents, with settings that name no pipeline."""
    home.configure("[search]\nk = 5\n")
    home.write("docs/a.md", "# Cash\n\nThe teller counts cash twice before the vault opens.")
    home.write("docs/b.md", "# Wires\n\nThe wire desk sends wires until three.")
    home.sync("docs")
    return home


def test_careful_is_hybrid_with_the_reranker() -> None:
    assert Pipeline.parse(BUILT_IN["hybrid"]) == Pipeline.parse("bm25 + dense >> convex(alpha=0.5, missing=score)")
    assert CAREFUL.path == str(Pipeline.parse(BUILT_IN["hybrid"])) and CAREFUL.rerank[0].name == "cross_encoder"


@pytest.mark.parametrize("settings", ["", "[search]\nk = 5\n", WORDS])
def test_every_knowledge_base_knows_them_and_syncs_for_its_own_alone(home: Home, settings: str) -> None:
    home.configure(settings)
    found = load_settings(home.folder / "surefind.toml")
    assert list(found.known)[:3] == ["hybrid", "careful", "pair"] and found.find("careful") == CAREFUL
    assert not {"careful", "pair"} & set(found.pipelines)  # so a sync embeds with one encoder


def test_a_pipeline_of_the_settings_with_the_same_name_wins(home: Home) -> None:
    home.configure(WORDS + OWN_CAREFUL)
    found = load_settings(home.folder / "surefind.toml")
    assert str(found.named("careful")).endswith("rrf(k=60.0)")
    with home.open() as kb:
        (row,) = (one for one in compared(kb, None, [], [], [])[0] if one.name == "careful")
    assert not row.pipeline.rerank and not row.drawn


def test_search_takes_the_name_and_the_spec_has_it(base: Home) -> None:
    ran = surefind("search", "wire desk", "-p", "careful", "--json", kb=base.folder)
    assert ran.code == 0 and ran.json["hits"][0]["document"] == "b.md"
    with base.open() as kb:
        rows = compared(kb, None, ["hybrid", BUILT_IN["careful"], "bm25"], [], [])[0]
    assert [one.name for one in rows] == ["hybrid", "careful", "bm25"] and not any(one.drawn for one in rows)


def test_use_writes_the_name_alone(base: Home) -> None:
    assert surefind("use", "careful", kb=base.folder).code == 0
    text = (base.folder / "surefind.toml").read_text(encoding="utf-8")
    assert 'pipeline = "careful"' in text and "[pipelines" not in text
    found = load_settings(base.folder / "surefind.toml")
    assert found.pipelines["careful"] == CAREFUL  # sync builds its indexes
    assert surefind("use", "--undo", kb=base.folder).code == 0
    assert (base.folder / "surefind.toml").read_text(encoding="utf-8") == "[search]\nk = 5\n"


def test_status_lists_them(base: Home) -> None:
    assert "careful = bm25(" in surefind("status", kb=base.folder).out


def test_the_default_comparison_has_them_and_asks_the_reranker_a_part(base: Home) -> None:
    with base.open() as kb:
        rows = {one.name: one for one in compared(kb, None, [], [], [])[0]}
    assert {"hybrid", "careful", "pair", "BM25"} <= rows.keys()
    assert [name for name, one in rows.items() if one.drawn] == ["careful"]


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
    monkeypatch.setattr("surefind.bench.comparing._EMBEDDED", 1)
    with base.open() as kb:
        rows, _, left_out = compared(kb, None, [], [], [])
        assert left_out == ("pair",) and "pair" not in [one.name for one in rows]
        named, _, none = compared(kb, None, ["hybrid", "pair"], [], [])
        assert [one.name for one in named] == ["hybrid", "pair"] and not none
        kb.build_for(PAIR.retrieve)
        assert compared(kb, None, [], [], [])[2] == ()  # its vectors are there


def test_a_report_says_that_the_pair_was_left_out(base: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefind.bench.comparing._EMBEDDED", 1)
    ran = surefind("bench", kb=base.folder)
    assert ran.code == 0 and "Not compared: pair" in ran.out
    assert "surefind bench --exam known-item -p hybrid -p pair" in " ".join(ran.out.split())


def test_the_pair_finds_with_both_encoders(base: Home) -> None:
    used = surefind("use", "pair", kb=base.folder)
    assert used.code == 0 and "From now on a sync also builds dense(model=arctic)." in used.out
    ran = surefind("search", "until when are wires sent", "--json", kb=base.folder)
    assert ran.code == 0 and ran.json["hits"][0]["document"] == "b.md"
    assert [str(one) for one in PAIR.retrieve[1:]] == ["dense(model=minilm)", "dense(model=arctic)"]


def test_the_prior_knows_them() -> None:
    found = known([str(Pipeline.parse(text)) for text in BUILT_IN.values()])
    assert not found.unknown and found.default == 0 and min(found.belief.mean[1:]) > 0.005
