"""Relations, communities, summaries, and the retrievers that use them."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import replace
from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from graph_helpers import SERVICES, collections, facts, graph, passage
from surefind.base import spec
from surefind.base.errors import MissingPartError, SpecError
from surefind.base.protocols import Progress, Services
from surefind.base.types import EVERY, Chunk, Extraction, Mask, Mention, Query
from surefind.engine.graph.communities import communities, edges
from surefind.engine.graph.derive import Graph, derive
from surefind.engine.graph.facts import Facts
from surefind.engine.graph.relations import MAX_RELATIONS, relate, relate_directed, relate_stated
from surefind.engine.graph.summaries import labels, summarise
from surefind.engine.retrieve.graph_local import GraphLocal
from surefind.engine.services import LocalServices
from surefind.testing.retrievers import built


def weights(found: Graph) -> dict[tuple[str, str], float]:
    table = {}
    for i, name in enumerate(found.keys):
        others, strengths = found.once(relate).of(i)
        table |= {(name, found.keys[j]): w for j, w in zip(others.tolist(), strengths.tolist(), strict=True)}
    return table


def test_npmi_written_out() -> None:
    texts = ["We met Dana at Oak. Then we met Dana at Oak again.", "And Dana left. In the end we saw Elm."]
    found = weights(graph([passage(i, str(i), text) for i, text in enumerate(texts)]))
    # Four sentences. Dana stands in three of them, Oak in two, both in two; the titles are 0 and 1, two sentences each.
    joint = 2 / 4
    expected = log(joint / ((3 / 4) * (2 / 4))) / -log(joint) * 2 / 3
    assert found["dana", "oak"] == pytest.approx(expected)
    assert found["oak", "dana"] == found["dana", "oak"]
    assert ("elm", "1") not in found  # both stand in one chunk only: neither leads to another


def test_title_holds_for_every_sentence_below_it() -> None:
    chunks = [passage(0, "Manual", "We met Dana. We met Elm."), passage(1, "Other", "Then Dana left.")]
    found = weights(graph([*chunks, *(passage(2 + i, f"T{i}", f"So Name{i}x won.") for i in range(9))]))
    assert ("manual", "dana") in found


def test_entity_keeps_its_strongest_relations_only() -> None:
    names = [f"Name{i}x" for i in range(60)]
    chunks = [passage(i, f"T{i}", f"We met Hub and {name}.") for i, name in enumerate(names)]
    chunks += [passage(100 + i, f"U{i}", f"So {name} left.") for i, name in enumerate(names)]
    found = graph(chunks)
    others, _ = found.once(relate).of(found.keys.index("hub"))
    assert len(others) >= MAX_RELATIONS
    assert all(found.keys.index("hub") in found.once(relate).of(int(other))[0] for other in others)


class Stated:
    """An extractor that reads relations."""

    def extract(self, texts: Sequence[str], services: Services, progress: Progress | None = None) -> list[Extraction]:
        return [Extraction((Mention("Dana", 0), Mention("Oak", 1)), (), (("Dana", "runs", "Oak"),)) for _ in texts]


def test_stated_relation_has_weight_one() -> None:
    chunks = [passage(i, str(i), "Dana. Oak.") for i in range(2)]
    found = weights(derive(Facts.build(chunks, Stated(), SERVICES), EVERY))
    assert found["dana", "oak"] == 1


def test_a_directed_relation_leads_from_the_first_entity_to_the_second() -> None:
    chunks = [passage(i, str(i), "Dana. Oak.") for i in range(2)]
    found = derive(Facts.build(chunks, Stated(), SERVICES), EVERY)
    dana, oak = found.keys.index("dana"), found.keys.index("oak")
    assert found.once(relate_directed).of(dana)[0].tolist() == [oak]
    assert found.once(relate_directed).of(oak)[0].tolist() == []
    assert found.once(relate_stated).of(oak)[0].tolist() == [dana]


def test_entities_are_read_in_the_context_only_if_asked_to() -> None:
    chunks = [replace(passage(i, str(i), "It opens at nine."), context="About Oak Street.") for i in range(2)]
    extractor = spec.make("extract", "phrases")
    without, within = (Facts.build(chunks, extractor, SERVICES, context=one) for one in (False, True))
    assert "oak street" not in derive(without, EVERY).keys and "oak street" in derive(within, EVERY).keys
    assert GraphLocal().index_spec(LocalServices()) != GraphLocal(context=True).index_spec(LocalServices())


@given(collections(), st.data())
def test_relations_and_labels_with_a_mask_are_those_of_the_chunks_allowed(
    chunks: list[Chunk], data: st.DataObject
) -> None:
    allow = np.array(data.draw(st.lists(st.booleans(), min_size=len(chunks), max_size=len(chunks))), np.bool_)
    masked = derive(facts(chunks), Mask(allow))
    alone = graph([chunk for chunk, seen in zip(chunks, allow, strict=True) if seen])
    assert weights(masked) == pytest.approx(weights(alone))
    assert dict(zip(masked.keys, labels(masked), strict=True)) == dict(zip(alone.keys, labels(alone), strict=True))


def test_label_is_the_way_most_passages_write_it() -> None:
    texts = ["So Oak Street won.", "At OAK STREET it rained.", "In Oak Street it did not."]
    found = graph([passage(i, str(i), text) for i, text in enumerate(texts)])
    assert labels(found)[found.keys.index("oak street")] == "Oak Street"


# ---------------------------------------------------------------- communities

TWO = [
    *(passage(i, f"Branch {i}", "At Oak Street we met Dana Whitfield and Elm Grove.") for i in range(4)),
    *(passage(10 + i, f"Server {i}", "On EOD-7 the job BKP-2 calls KubeAPIDown.") for i in range(4)),
]


def test_communities_part_what_is_not_joined() -> None:
    found = graph(TWO)
    parts = communities(found)
    assert len(set(parts.large[:4].tolist())) == 1 and len(set(parts.large[4:8].tolist())) == 1
    assert parts.large[0] != parts.large[4]


def test_modularity_equals_networkx() -> None:
    import networkx as nx  # not by every process that collects the tests

    found = graph(TWO)
    parts = communities(found)
    made = nx.Graph()
    made.add_weighted_edges_from(edges(found))
    groups: dict[int, set[str]] = {}
    for node in made.nodes:
        groups.setdefault(int(parts.large[int(node)]), set()).add(node)
    assert parts.modularity == pytest.approx(nx.community.modularity(made, groups.values()), abs=1e-9)


def test_small_communities_lie_inside_large_ones() -> None:
    parts = communities(graph(TWO), largest=4)
    pairs = {(int(s), int(b)) for s, b in zip(parts.small, parts.large, strict=True) if s >= 0}
    assert len({small for small, _ in pairs}) == len(pairs)
    assert len(parts) > parts.large.max() + 1


def test_graph_without_edges_has_no_communities() -> None:
    assert len(communities(graph([]))) == 0


def test_summary_names_main_entities_and_begins_of_passages() -> None:
    found = graph(TWO)
    texts = [summary.text for summary in summarise(found, communities(found))]
    assert any("Oak Street" in text and "At Oak Street we met" in text and "EOD-7" not in text for text in texts)


@given(collections(least=2), st.data())
def test_communities_and_summaries_of_a_mask_tell_nothing_of_the_rest(chunks: list[Chunk], data: st.DataObject) -> None:
    allow = np.array(data.draw(st.lists(st.booleans(), min_size=len(chunks), max_size=len(chunks))), np.bool_)
    masked = derive(facts(chunks), Mask(allow))
    seen = np.flatnonzero(allow)
    alone = graph([chunks[i] for i in seen])
    ours, theirs = communities(masked), communities(alone)
    assert ours.modularity == pytest.approx(theirs.modularity)
    assert ours.small[seen].tolist() == theirs.small[: len(seen)].tolist()
    texts = [summary.text for summary in summarise(masked, ours)]
    assert texts == [summary.text for summary in summarise(alone, theirs)]


def test_missing_leiden_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "graspologic_native":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingPartError, match=r"pip install 'surefind\[graph\]'"):
        communities(graph(TWO))


# ---------------------------------------------------------------- local and global search

PATH = [
    passage(0, "River Branch", "We met Dana Whitfield at the desk."),
    passage(1, "Whitfield family", "There Dana Whitfield married Lee Ashby."),
    passage(2, "Chess club", "For years Lee Ashby led it with Kim Rowe."),
    passage(3, "Sailing club", "Long ago Kim Rowe founded it."),
    *(passage(10 + i, f"Weather {i}", f"It rained in Town{i}x.") for i in range(9)),
]


@each(("hops", "expected"), [(0, {0, 1}), (1, {0, 1, 2}), (2, {0, 1, 2, 3})])
def test_local_search_reaches_as_far_as_its_hops(hops: int, expected: set[int]) -> None:
    stage, found = spec.make("retrieve", f"graph_local(hops={hops})"), graph(PATH)
    assert set(stage.candidates(found, found.named_in("What does Dana Whitfield do?"))) == expected


def test_local_search_takes_a_bounded_pool_nearest_hops_first() -> None:
    stage, found = spec.make("retrieve", "graph_local(hops=2, pool=3)"), graph(PATH)
    assert set(stage.candidates(found, found.named_in("What does Dana Whitfield do?"))) == {0, 1, 2}


CROWD = [
    *(passage(i, f"Visit {i}", f"There Dana Whitfield met Guest{i}x.") for i in range(40)),
    *(passage(100 + i, f"Call {i}", f"Then Guest{i}x called Friend{i}x.") for i in range(40)),
    *(passage(200 + i, f"Weather {i}", f"It rained in Town{i}x.") for i in range(80)),
]
"""Dana Whitfield is related to forty guests, and each guest to a friend."""


def test_local_search_without_limits_follows_every_relation() -> None:
    found = graph(CROWD)
    named = found.named_in("Whom did Dana Whitfield meet?")
    limited, every = (spec.make("retrieve", f"graph_local(hops=1{limits})") for limits in ("", ", fan=null, pool=null"))
    assert len(limited.candidates(found, named)) < 80
    assert set(every.candidates(found, named)) == set(range(80))


def test_local_search_over_stated_relations_needs_them() -> None:
    stage, found = spec.make("retrieve", "graph_local(hops=2, edges=stated)"), graph(PATH)
    assert set(stage.candidates(found, found.named_in("What does Dana Whitfield do?"))) == {0, 1}


def test_local_search_ranks_by_likeness_to_the_query() -> None:
    stage = spec.make("retrieve", "graph_local(hops=1)")
    index = built(stage, PATH, SERVICES)
    query = Query("Did Dana Whitfield play chess?")
    ordinals, scores = index.search(stage, [query], 5, EVERY).row(0)
    cosines = index.near[str(spec.make("retrieve", "dense"))].score(
        spec.make("retrieve", "dense"), [query], np.array([ordinals]), EVERY
    )[0]
    assert scores == pytest.approx((1 + cosines) / 2, abs=1e-6)
    assert list(scores) == sorted(scores, reverse=True)


def test_local_search_for_nobody_finds_nothing() -> None:
    stage = spec.make("retrieve", "graph_local")
    assert len(built(stage, PATH, SERVICES).search(stage, [Query("how is the sea?")], 5, EVERY).row(0)[0]) == 0


def test_hops_must_be_from_0_to_2() -> None:
    with pytest.raises(SpecError, match="hops"):
        spec.make("retrieve", "graph_local(hops=3)")


def test_global_search_opens_the_best_communities_only() -> None:
    stage = spec.make("retrieve", "graph_global(communities=1)")
    found = built(stage, TWO, SERVICES).search(stage, [Query("Which backup job runs on the server?")], 8, EVERY)
    assert set(found.row(0)[0].tolist()) <= {4, 5, 6, 7} and len(found.row(0)[0])


def test_ppr_and_graph_local_share_an_index() -> None:
    specs = {spec.make("retrieve", text).index_spec(LocalServices()) for text in ("ppr", "graph_local(hops=2)")}
    assert len(specs) == 1


def test_many_masks_never_see_the_communities_of_another() -> None:
    """More masks than graphs are kept of: what was dropped is made again, and not mistaken for another's."""
    stage = spec.make("retrieve", "graph_global")
    index = built(stage, TWO, SERVICES)
    for hidden in (*range(8), *range(8), 0):
        allow = np.arange(len(TWO)) != hidden
        for other in range(3):
            index.graph(Mask(np.arange(len(TWO)) % 3 != other))
        texts = " ".join(summary.text for summary in index.overview(Mask(allow)).summaries)
        assert TWO[hidden].title not in texts
