"""The graph: names, facts, what is derived from them, and walks checked against networkx."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from graph_helpers import SERVICES, collections, edges, facts, graph, passage
from surefind.base import spec
from surefind.base.types import EVERY, Chunk, Mask, Query
from surefind.engine.graph import walk
from surefind.engine.graph.derive import HEADED, LINKS, MENTIONS, TITLED, derive
from surefind.engine.graph.facts import Facts, Lexicon, key_of, resolve, title_forms
from surefind.engine.graph.walk import pagerank
from surefind.engine.retrieve.ppr import has_two_names
from surefind.testing.retrievers import built


@each(
    ("name", "key"),
    [
        ("The Rolling Stones'", "rolling stones"),
        ("ROLLING STONES", "rolling stones"),
        ("Whitfield's", "whitfield"),
        ("cash reports", "cash report"),
        ("Cash Reports", "cash reports"),
        ("policies", "policy"),
        ("31 CFR 1020.320(d)", "31 cfr 1020 320 d"),
        ("a the an", "an"),
        ("…", ""),
    ],
)
def test_key_of_a_name(name: str, key: str) -> None:
    assert key_of(name) == key


@given(st.text("aAbBsS ieythe019'’-.ÄöÉßœ東", max_size=20))
def test_a_key_in_capitals_is_its_own_key(name: str) -> None:
    assert key_of(key_of(name).upper()) == key_of(name)


def test_title_is_known_without_its_bracket_too() -> None:
    assert title_forms("Rush (band)") == ["Rush", "Rush (band)"]
    assert title_forms("Rush") == ["Rush"]
    assert title_forms(" ") == []


def test_lexicon_finds_every_run_of_words_that_is_a_name() -> None:
    lexicon = Lexicon(["bank", "bank of england", "cash report", "england"])
    found = [(start, end, lexicon.keys[i]) for start, end, i in lexicon.find("The Bank of England reads cash reports")]
    assert found == [(1, 2, "bank"), (1, 4, "bank of england"), (3, 4, "england"), (5, 7, "cash report")]


def test_lexicon_takes_a_single_word_for_a_name_only_if_written_as_one() -> None:
    lexicon = Lexicon(["rush"])
    assert list(lexicon.find("They Rush in")) != []
    assert list(lexicon.find("They rush in")) == []
    assert list(lexicon.find("songs by rush")) != []


# ---------------------------------------------------------------- what texts name


def names(text: str, extract: str = "phrases") -> list[str]:
    (found,) = spec.make("extract", extract).extract([text], SERVICES)
    return [mention.name for mention in found.mentions]


@each(
    ("text", "expected"),
    [
        ("Holds follow 31 CFR 1020.320(d) since May 2019.", {"31 CFR 1020.320(d)", "May 2019"}),
        ("Ask the Bank of England or J. K. Rowling.", {"Bank of England", "J. K. Rowling"}),
        ("However, Dana left. Finally it ended.", {"Dana"}),
        ('They recorded "Katy Lied" there.', {"Katy Lied"}),
        ("Run `restart-agent --now` on EOD-7.", {"restart-agent --now", "EOD-7"}),
        ("it asks for the beneficial ownership of a member", {"beneficial ownership"}),
        ("See [the Manual](https://Example.com/Secret) now.", {"Manual"}),
        ("KubeAPIErrorBudgetBurn fires at 50%.", {"KubeAPIErrorBudgetBurn"}),
        ("", set()),
    ],
)
def test_phrases_finds_names_by_shape(text: str, expected: set[str]) -> None:
    assert expected <= set(names(text))
    assert "However" not in names(text) and "See" not in names(text) and "Finally" not in names(text)


@each(
    "word",
    """It's It’s Itʼs You'll You’ll Don't Don’t We'll We’re I'm I’ve They'd What's Let's Won't Isn't CAN'T There's She's
    IT'S""".split(),
)
def test_contractions_are_no_names(word: str) -> None:
    assert names(f"{word} on Main Street. They said {word} late.", "phrases(nouns=false)") == ["Main Street"]
    assert names(f"{word} Main Street.", "phrases(nouns=false)") == ["Main Street"]


@each(
    "name",
    [
        "Moody's",
        "Moody’s",
        "O'Brien",
        "O’Brien",
        "Macy's",
        "D'Angelo",
        "L'Oréal",
        "Levi's",
        "Cashier's Checks",
        "N'Golo",
    ],
)
def test_names_with_an_apostrophe_stay(name: str) -> None:
    assert names(f"{name} called. Ask {name} twice.", "phrases(nouns=false)") == [name, name]


def test_phrases_without_nouns() -> None:
    assert names("ask for the beneficial ownership", "phrases(nouns=false)") == []


def test_phrases_reads_definitions_whose_initials_agree() -> None:
    text = "A Suspicious Activity Report (SAR) or Office of Foreign Assets Control (OFAC) note (IRS) and a Plan (XYZ)."
    (found,) = spec.make("extract", "phrases").extract([text], SERVICES)
    assert found.aliases == (
        ("SAR", "Suspicious Activity Report"),
        ("OFAC", "Office of Foreign Assets Control"),
    )


def test_mentions_carry_the_number_of_their_sentence() -> None:
    (found,) = spec.make("extract", "phrases").extract(["We saw Dana. Then Oak Street closed."], SERVICES)
    assert [(m.name, m.sentence) for m in found.mentions] == [("Dana", 0), ("Oak Street", 1)]


def test_regex_is_capitalised_phrases_and_numbers() -> None:
    assert names("The Fed raised rates by 0.25% in 2019, said Dana Whitfield.", "regex") == [
        "The Fed",
        "Dana Whitfield",
        "0.25%",
        "2019",
    ]


@given(collections())
def test_every_mention_stands_in_the_text(chunks: list[Chunk]) -> None:
    for extract in ("phrases", "regex"):
        for chunk in chunks:
            assert all(name in chunk.text for name in names(chunk.text, extract))


# ---------------------------------------------------------------- what is derived


def test_roles_of_a_chunk() -> None:
    chunk = Chunk("a/x.md", 0, 1, "Dana asks Oak Street; see [filing](../b/y.md).", ("Steps",), title="Asking")
    found = edges(graph([chunk, Chunk("b/y.md", 0, 1, "It is late.", title="Filing"), passage(3, "Oak Street", "x")]))
    assert found[0] == {
        "asking": TITLED,
        "steps": HEADED,
        "dana": MENTIONS,
        "oak street": MENTIONS | LINKS,
        "filing": LINKS,
    }


@each(
    ("document", "target", "page"),
    [
        ("a/b.md", "c.md", "a/c"),
        ("a/b.md", "../c.html", "c"),
        ("a/b.md", "/c/d", "c/d"),
        ("a/b.md", "https://example.com/c.md", ""),
        ("a/b.md", "mailto:x@example.com", ""),
    ],
)
def test_links_are_resolved_against_the_document(document: str, target: str, page: str) -> None:
    assert resolve(document, target) == page


def test_definition_joins_both_names_everywhere() -> None:
    found = graph([passage(0, "One", "A Suspicious Activity Report (SAR) is due."), passage(1, "Two", "File the SAR.")])
    assert "sar" not in found.keys
    entity = found.keys.index("suspicious activity report")
    assert found.chunks_of(entity).tolist() == [0, 1]


def test_query_may_use_either_name_of_a_definition() -> None:
    found = graph([passage(0, "One", "A Suspicious Activity Report (SAR) is due."), passage(1, "Two", "File the SAR.")])
    entity = found.keys.index("suspicious activity report")
    for query in ("Who files a SAR?", "Who files a suspicious activity report?", "sar"):
        assert found.named_in(query) == [entity]
    alone = derive(found.facts, Mask(np.array([False, True])))  # who may not read the definition does not have it
    assert [alone.keys[i] for i in alone.named_in("Who files a SAR?")] == ["sar"]
    assert alone.named_in("Who files a suspicious activity report?") == []


def test_definitions_that_disagree_join_nothing() -> None:
    texts = ["Suspicious Activity Report (SAR).", "Search And Rescue (SAR).", "Send SAR."]
    assert "sar" in graph([passage(i, str(i), text) for i, text in enumerate(texts)]).keys


def test_lower_case_phrase_of_one_chunk_is_dropped_and_of_two_is_kept() -> None:
    once = graph([passage(0, "One", "ask for the beneficial ownership")])
    twice = graph([passage(i, str(i), "ask for the beneficial ownership") for i in range(2)])
    assert "beneficial ownership" not in once.keys and "beneficial ownership" in twice.keys


def test_query_names_the_longest_of_overlapping_entities() -> None:
    found = graph(
        [passage(0, "Bank of England", "The Bank met England in London."), passage(1, "Bank", "England won.")]
    )
    assert [found.keys[i] for i in found.named_in("Is the Bank of England in London?")] == ["bank of england", "london"]


@given(collections(), st.data())
def test_graph_with_a_mask_is_the_graph_of_the_chunks_allowed(chunks: list[Chunk], data: st.DataObject) -> None:
    allow = np.array(data.draw(st.lists(st.booleans(), min_size=len(chunks), max_size=len(chunks))), np.bool_)
    masked = edges(derive(facts(chunks), Mask(allow)))
    alone = edges(graph([chunk for chunk, seen in zip(chunks, allow, strict=True) if seen]))
    assert [masked[i] for i in np.flatnonzero(allow).tolist()] == list(alone.values())
    assert all(not masked[i] for i in np.flatnonzero(~allow).tolist())


@given(collections(most=5), collections(most=5), st.data())
def test_facts_brought_up_to_date_equal_facts_built_anew(
    before: list[Chunk], added: list[Chunk], data: st.DataObject
) -> None:
    kept = [i for i in range(len(before)) if data.draw(st.booleans())]
    later = [before[i] for i in kept] + added
    origin = np.array(kept + [-1] * len(added), np.int32)
    updated = Facts.build(later, spec.make("extract", "phrases"), SERVICES, facts(before), origin)
    anew = facts(later)
    assert (updated.strings, updated.keys) == (anew.strings, anew.keys)
    for name in ("starts", "rows", "documents", "key_numbers"):
        assert np.array_equal(getattr(updated, name), getattr(anew, name))


def test_facts_are_saved_and_loaded(tmp_path: Path) -> None:
    made = facts([passage(0, "Oak Street", "Dana asks the CTR desk."), passage(1, "", "See [it](0.md).")])
    made.save(tmp_path)
    loaded = Facts.load(tmp_path)
    assert (loaded.strings, loaded.keys) == (made.strings, made.keys)
    assert np.array_equal(loaded.rows, made.rows) and np.array_equal(loaded.starts, made.starts)


# ---------------------------------------------------------------- walks


def networkx() -> ModuleType:
    """Imported where the tests run, and not by every process that collects them."""
    import networkx

    return networkx


def karate() -> tuple[Any, np.ndarray, np.ndarray]:
    nx = networkx()
    made = nx.karate_club_graph()
    made.add_nodes_from([34, 35])  # without edges: walkers there start anywhere
    matrix = nx.to_scipy_sparse_array(made, weight=None, format="csr")
    return made, matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32)


@each("damping", [0.5, 0.85, 0.95])
def test_pagerank_equals_networkx(damping: float) -> None:
    made, starts, targets = karate()
    expected = networkx().pagerank(made, alpha=damping, tol=1e-14, max_iter=2000, weight=None)
    assert np.abs(pagerank(starts, targets, damping) - np.array([expected[i] for i in range(36)])).max() < 1e-8


def test_personalised_pagerank_equals_networkx_and_push_comes_close() -> None:
    made, starts, targets = karate()
    restart = np.zeros(36)
    restart[[0, 5]] = 0.25, 0.75
    shares = 1 / np.repeat(np.diff(starts), np.diff(starts))
    exact = walk.power(starts, targets, shares, restart, 0.7, 1e-14, 2000)
    seed = {0: 0.25, 5: 0.75}
    wanted = networkx().pagerank(made, alpha=0.7, personalization=seed, tol=1e-14, max_iter=2000, weight=None)
    assert np.abs(exact - np.array([wanted[i] for i in range(36)])).max() < 1e-8
    seeds, weights = np.array([0, 5], np.int32), np.array([0.25, 0.75])
    pushed = walk.push(starts, targets, shares.astype(np.float32), seeds, weights, 0.7, 1e-7)
    assert np.abs(pushed - exact).max() < 1e-4
    rough = walk.push(starts, targets, shares.astype(np.float32), seeds, weights, 0.7, 1e-2)
    assert np.abs(rough - exact).max() > np.abs(pushed - exact).max()


# ---------------------------------------------------------------- retrievers


def search(retriever: str, chunks: list[Chunk], query: str, allow: list[bool] | None = None) -> list[int]:
    stage = spec.make("retrieve", retriever)
    mask = None if allow is None else np.array(allow, np.bool_)
    found = built(stage, chunks, SERVICES).search(stage, [Query(query)], 10, Mask(mask))
    return found.row(0)[0].tolist()


def test_entity_overlap_written_out() -> None:
    chunks = [passage(i, "", text) for i, text in enumerate(["Oak Pine 7", "Oak, Pine 7", "Elm", "Oak, Elm", "Pine"])]
    stage = spec.make("retrieve", "entity_overlap")
    found = built(stage, chunks, SERVICES).search(stage, [Query("Oak, Elm and 7")], 5, EVERY)
    # Entities: {Oak Pine, 7}, {Oak, Pine, 7}, {Elm}, {Oak, Elm}, {Pine}: no pair shares two, so every PageRank is 1/5.
    assert found.row(0)[0].tolist() == [1, 3, 0, 2]
    assert found.row(0)[1] == pytest.approx([2 * 1.2, 2 * 1.2, 1.2, 1.2])


def test_entity_overlap_joins_within_its_window_only() -> None:
    texts = ["Oak, Elm", "Pine", "Oak, Elm"]
    chunks = [passage(i, "", text) for i, text in enumerate(texts)]

    def scores(retriever: str) -> list[float]:
        stage = spec.make("retrieve", retriever)
        return built(stage, chunks, SERVICES).search(stage, [Query("Oak")], 3, EVERY).row(0)[1].tolist()

    assert scores("entity_overlap(window=1)") == pytest.approx([1 + 1 / 3] * 2)
    nx = networkx()
    with_edge = nx.Graph([(0, 2)])
    with_edge.add_node(1)
    rank = nx.pagerank(with_edge, alpha=0.85, tol=1e-12)
    assert scores("entity_overlap(window=2)") == pytest.approx([1 + rank[0], 1 + rank[2]])
    assert scores("entity_overlap(window=0)") == pytest.approx([1 + rank[0], 1 + rank[2]])


@pytest.mark.parametrize("least", [1, 2])
@given(chunks=collections(least=2))
def test_entity_overlap_without_window_equals_a_wide_one_where_nothing_is_common(
    least: int, chunks: list[Chunk]
) -> None:
    few = [chunk for i, chunk in enumerate(chunks) if i < 2]  # in two chunks nothing stands in more than two
    results = []
    for window in (0, 50):
        stage = spec.make("retrieve", f"entity_overlap(window={window}, least={least})")
        found = built(stage, few, SERVICES).search(stage, [Query("Oak Street and Dana Whitfield")], 9, EVERY)
        results.append((found.ids.tolist(), found.scores.tolist()))
    assert results[0] == results[1]


CHAIN = [
    passage(0, "Oak Street", "The branch at the river is run by Dana Whitfield."),
    passage(1, "Dana Whitfield", "She was born in Lisbon and plays chess."),
    passage(2, "Elm Street", "The branch at the station is run by somebody else."),
    passage(3, "Chess", "A game of two players."),
]


@each("seed", ["bm25", "dense"])
def test_ppr_finds_what_the_first_hit_names(seed: str) -> None:
    found = search(f"ppr(seed=[{seed}])", CHAIN, "Where was the head of the Oak Street branch born?")
    assert set(found[:2]) == {0, 1}


@each(
    ("question", "expected"),
    [
        ("Who signs for the Wire Desk at North Branch?", True),
        ("Were Scott Derrickson and Ed Wood of the same nationality?", True),
        ("Who signs for the Wire Desk?", False),
        ("Wire Desk opening hours", False),
        ("Wires of North Branch", False),
        ("what is a cash report", False),
        ("Банк Англии и Банк России", True),
        ("", False),
        ("…", False),
    ],
)
def test_question_with_two_names(question: str, expected: bool) -> None:
    assert has_two_names(question) is expected


def test_walks_when_names_are_as_always_or_not_at_all() -> None:
    asked = "Where was the head of the Oak Street branch and of Elm Street born?"
    assert search("ppr(seed=[bm25], when=names)", CHAIN, asked) == search("ppr(seed=[bm25])", CHAIN, asked) != []
    asked = asked.lower()
    assert search("ppr(seed=[bm25])", CHAIN, asked) and not search("ppr(seed=[bm25], when=names)", CHAIN, asked)


def test_ppr_goes_no_way_through_a_chunk_that_is_not_allowed() -> None:
    query = "Who runs the Oak Street branch at the river?"
    assert 1 in search("ppr(seed=[bm25], seeds=1)", CHAIN, query)
    assert search("ppr(seed=[bm25], seeds=1)", CHAIN, query, [False, True, True, True]) == [2]


@given(chunks=collections(least=2), data=st.data())
def test_completed_scores_of_a_graph_are_those_of_the_search(chunks: list[Chunk], data: st.DataObject) -> None:
    stage = spec.make("retrieve", "ppr(seed=[bm25])")
    index = built(stage, chunks, SERVICES)
    allow = np.array(data.draw(st.lists(st.booleans(), min_size=len(chunks), max_size=len(chunks))), np.bool_)
    queries = [Query("Oak Street"), Query("cash report of Dana Whitfield")]
    found = index.search(stage, queries, len(chunks), Mask(allow))
    index.search(stage, queries, 3, EVERY)  # another caller's question in between
    again = index.score(stage, queries, found.ids, Mask(allow))
    assert np.array_equal(again, found.scores)


def test_words_of_instructions_are_no_names() -> None:
    from surefind.engine.extract.phrases import Phrases
    from surefind.engine.services import LocalServices

    text = "Set the limit. Read it. Click OK, then press Save. Contact Dana Reyes. Select Wire Desk. Run Kafka."
    (found,) = Phrases(nouns=False).extract([text], LocalServices())
    assert {one.name for one in found.mentions} == {"Dana Reyes", "Wire Desk", "Kafka"}
