"""`llm`: entities read by a model, and what is done with what it says wrongly."""

from __future__ import annotations

import json

import pytest

from graph_helpers import passage
from llm_server import LLMServer
from llm_steps import BROKEN, services_for
from surefind.base import spec
from surefind.base.running import collecting
from surefind.base.types import EVERY
from surefind.engine.graph.derive import derive
from surefind.engine.graph.facts import Facts
from surefind.engine.graph.relations import relate
from surefind.engine.graph.summaries import types

TEXT = "A Suspicious Activity Report (SAR) goes to the Treasury. Dana Whitfield signs the report."


def entity(text: str, kind: str = "Person", **relations: str) -> dict[str, object]:
    listed = [{"relation": relation, "target": target} for relation, target in relations.items()]
    return {"text": text, "type": kind, "relationships": listed}


def test_entities_types_and_relations(llm: LLMServer) -> None:
    llm.say(json.dumps({"entities": [entity("Dana Whitfield", signs="report"), entity("report", "Concept")]}))
    (found,) = spec.make("extract", "llm").extract([TEXT], services_for(llm))
    assert [tuple(mention) for mention in found.mentions] == [
        ("Dana Whitfield", 1, "Person"),
        ("report", 0, "Concept"),
        ("report", 1, "Concept"),
    ]
    assert found.relations == (("Dana Whitfield", "signs", "report"),)
    assert found.aliases == (("SAR", "Suspicious Activity Report"),)


def test_entity_that_is_not_in_the_text_is_rejected_with_its_relations(llm: LLMServer) -> None:
    said = [entity("Dana Whitfield", works_for="FinCEN"), entity("FinCEN", employs="Dana Whitfield")]
    llm.say(json.dumps({"entities": said}))
    (found,) = spec.make("extract", "llm").extract([TEXT], services_for(llm))
    assert [mention.name for mention in found.mentions] == ["Dana Whitfield"]
    assert found.relations == ()


@pytest.mark.parametrize("entities", ["none", [7, {"text": None, "relationships": 3}], [{"text": "Dana", "type": 1}]])
def test_odd_answers_do_no_harm(llm: LLMServer, entities: object) -> None:
    llm.say(json.dumps({"entities": entities}))
    (found,) = spec.make("extract", "llm").extract([TEXT], services_for(llm))
    assert all(mention.name in TEXT for mention in found.mentions)


@pytest.mark.parametrize("act", [act for act in BROKEN if act not in ("hang", "drip")])
def test_model_that_fails_leaves_the_shape_of_words(llm: LLMServer, act: str) -> None:
    llm.script = [act] * 10
    with collecting() as collected:
        found = spec.make("extract", "llm").extract([TEXT], services_for(llm))
    assert found == spec.make("extract", "phrases").extract([TEXT], services_for(llm))
    assert "entities by the shape of words" in collected.text


def test_types_and_relations_reach_the_graph(llm: LLMServer) -> None:
    llm.say(json.dumps({"entities": [entity("Dana Whitfield", signs="report"), entity("report", "Concept")]}))
    chunks = [passage(i, f"T{i}", TEXT) for i in range(2)]
    graph = derive(Facts.build(chunks, spec.make("extract", "llm"), services_for(llm)), EVERY)
    dana, report = graph.keys.index("dana whitfield"), graph.keys.index("report")
    assert types(graph) == {dana: "Person", report: "Concept"}
    assert graph.once(relate).of(dana)[1].max() == 1
