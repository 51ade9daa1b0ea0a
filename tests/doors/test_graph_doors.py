"""The graph through the doors: searches with access groups, the page, the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exam_helpers import copy_few, surefind
from graph_helpers import graph, passage
from helpers import Home, ask
from surefind.base.types import Chunk
from surefind.engine.graph.communities import communities
from surefind.engine.graph.summaries import summarise
from surefind.engine.graph.view import render, view

SETTINGS = """
[search]
pipeline = "walks"

[pipelines.walks]
retrieve = ["bm25", "ppr(seed=[bm25])"]
fuse = "weighted(missing=score)"
"""
BRANCH = "# Oak Street\n\nThe branch at the river is run by Dana Whitfield."
DANA = "# Dana Whitfield\n\nShe was born in Lisbon."
SECRET = "---\nacl: [board]\n---\n# Merger\n\nDana Whitfield of Oak Street plans Project Falcon with Lisbon Bank (LB)."


@pytest.fixture
def bank(home: Home) -> Home:
    home.configure(SETTINGS)
    for name, text in (("a", BRANCH), ("b", DANA), ("c", SECRET), ("d", "# Weather\n\nIt rained in Lisbon.")):
        home.write(f"docs/{name}.md", text)
    home.sync("docs")
    return home


def test_walk_finds_the_document_that_another_one_names(bank: Home) -> None:
    assert bank.found("Oak Street river branch")[:2] == ["a.md", "b.md"]


def test_restricted_document_has_no_part_in_the_answers(bank: Home, tmp_path: Path) -> None:
    """Not as a hit, nor as a way to one, nor in a single score."""
    without = Home(tmp_path / "without", SETTINGS)
    for name, text in (("a", BRANCH), ("b", DANA), ("d", "# Weather\n\nIt rained in Lisbon.")):
        without.write(f"docs/{name}.md", text)
    without.sync("docs")
    for query in ("Oak Street", "Dana Whitfield of Lisbon", "Project Falcon"):
        with bank.open() as full, without.open() as bare:
            seen, expected = (
                [(hit.document, hit.score) for hit in ask(kb, query, pipeline="ppr(seed=[dense])").hits]
                for kb in (full, bare)
            )
        assert seen == [(name, pytest.approx(score)) for name, score in expected]


def test_group_that_may_read_it_finds_it(bank: Home) -> None:
    assert "c.md" in bank.found("Project Falcon", groups=["board"])
    assert "c.md" not in bank.found("Project Falcon")


def test_the_trace_says_where_local_search_has_nowhere_to_start(bank: Home) -> None:
    with bank.open() as kb:
        lost, started = (ask(kb, text, pipeline="graph_local(hops=0)") for text in ("why", "Oak Street"))
    assert lost.trace[0].note == "the question names no entity in the graph"
    assert started.trace[0].note == ""


def test_page_and_stats_show_only_what_the_groups_may_read(bank: Home) -> None:
    assert surefind("graph", "show", kb=bank.folder).code == 0
    page = bank.folder / ".surefind" / "graph.html"
    assert "Lisbon" in page.read_text(encoding="utf-8") and "Falcon" not in page.read_text(encoding="utf-8")
    assert surefind("graph", "show", "--as", "board", "--out", bank.folder / "all.html", kb=bank.folder).code == 0
    everything, public = (
        json.loads(surefind("graph", "stats", "--json", *more, kb=bank.folder).out) for more in (("--as", "*"), ())
    )
    assert (everything["passages"], public["passages"]) == (4, 3)
    assert "Project Falcon" not in json.dumps(public)


def test_stats_in_words(tmp_path: Path) -> None:
    home = Home(tmp_path)
    copy_few(home.docs)
    assert surefind("sync", home.docs, kb=home.folder).code == 0
    out = surefind("graph", "stats", kb=home.folder).out
    assert "Communities" in out and "modularity 0." in out and "Best connected" in out


# ---------------------------------------------------------------- the page

CHUNKS = [
    *(passage(i, f"Branch {i}", "At Oak Street we met Dana Whitfield.") for i in range(3)),
    passage(9, "</script><script>alert(1)</script>", "Then Oak Street closed </script>."),
]


def drawn(chunks: list[Chunk], most: int = 100) -> dict[str, object]:
    found = graph(chunks)
    parts = communities(found)
    return view(found, parts, summarise(found, parts), lambda ordinals: [chunks[i] for i in ordinals], most)


def test_view_holds_entities_relations_passages_and_communities() -> None:
    data = drawn(CHUNKS)
    nodes = {node["name"]: node for node in data["nodes"]}
    oak = nodes["Oak Street"]
    assert oak["degree"] == 4 and len(oak["passages"]) == 4
    assert data["nodes"][oak["related"][0][0]]["name"] == "Dana Whitfield" if oak["related"] else True
    assert data["passages"][oak["passages"][0]]["text"].startswith("At Oak Street")
    assert "Oak Street" in data["summaries"][oak["small"]]
    assert data["counts"]["passages"] == 4


def test_a_community_is_called_by_whole_names_even_with_commas() -> None:
    names = ["Huddle 7/22, by the window", "Oak Street"]
    chunks = [passage(i, names[0], "At Oak Street we met.") for i in range(3)]
    assert sorted(drawn(chunks)["groups"][0]["names"]) == names


def test_view_draws_the_best_connected_only() -> None:
    assert [node["name"] for node in drawn(CHUNKS, most=1)["nodes"]] == ["Oak Street"]


def test_dots_and_discs_do_not_lie_on_each_other() -> None:
    chunks = [passage(i, f"T{i}", f"We met Name{i % 40}x and Other{i % 40}y in Town{i % 7}z.") for i in range(160)]
    data = drawn(chunks, 1000)
    places = [(node["x"], node["y"]) for node in data["nodes"]]
    assert len(places) > 80
    apart = min((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 for i, a in enumerate(places) for b in places[:i])
    assert apart > 0.3**2
    discs = data["groups"]
    for i, a in enumerate(discs):
        for b in discs[:i]:
            assert (a["x"] - b["x"]) ** 2 + (a["y"] - b["y"]) ** 2 > (a["r"] + b["r"]) ** 2


def test_page_loads_nothing_and_no_text_can_leave_its_place() -> None:
    page = render(drawn(CHUNKS))
    assert "<script>alert" not in page
    assert page.count("</script>") == 2
    assert "http:" not in page and "https:" not in page and "src=" not in page


def test_empty_graph_can_be_drawn() -> None:
    assert drawn([])["nodes"] == []
    assert "<canvas" in render(drawn([]))
