"""`spacy`: named entities of a real pipeline, made here of rules; and what is said where spaCy is not there."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest

from graph_helpers import SERVICES, graph, passage
from surefind.base import spec
from surefind.base.errors import MissingPartError
from surefind.base.types import Mention
from surefind.engine.extract.spacy import _loaded
from surefind.engine.graph.summaries import types

TEXT = "A Suspicious Activity Report (SAR) is due on 3 May. Ask Dana\nWhitfield of Oak Street for it."


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A blank English pipeline with rules for names, saved as spaCy saves its own."""
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    space = {"IS_SPACE": True, "OP": "?"}
    nlp.add_pipe("entity_ruler").add_patterns(
        [
            {"label": "PERSON", "pattern": [{"LOWER": "dana"}, space, {"LOWER": "whitfield"}]},
            {"label": "FAC", "pattern": "Oak Street"},
            {"label": "DATE", "pattern": "3 May"},
        ]
    )
    nlp.to_disk(tmp_path / "rules")
    return f'spacy(model="{tmp_path / "rules"}")'


def test_entities_with_types_sentences_and_definitions(model: str) -> None:
    nothing, found = spec.make("extract", model).extract(["", TEXT], SERVICES)
    assert found.mentions == (Mention("Dana Whitfield", 1, "PERSON"), Mention("Oak Street", 1, "FAC"))
    assert found.aliases == (("SAR", "Suspicious Activity Report"),)
    assert nothing.mentions == ()
    assert spec.make("extract", model).extract([], SERVICES) == []


def test_text_longer_than_the_pipeline_likes_is_read(model: str) -> None:
    _loaded(spec.make("extract", model).model).max_length = 50
    (found,) = spec.make("extract", model).extract([TEXT], SERVICES)
    assert len(found.mentions) == 2


def test_types_reach_the_graph(model: str) -> None:
    found = graph([passage(i, f"T{i}", TEXT) for i in range(2)], model)
    assert {found.keys[entity]: told for entity, told in types(found).items()} == {
        "dana whitfield": "PERSON",
        "oak street": "FAC",
    }
    assert [found.keys[i] for i in found.named_in("Where is Dana Whitfield?")] == ["dana whitfield"]


def test_missing_model_says_how_to_get_it(tmp_path: Path) -> None:
    pytest.importorskip("spacy")
    with pytest.raises(MissingPartError, match="python -m spacy download en_nonesuch"):
        spec.make("extract", "spacy(model=en_nonesuch)").extract([TEXT], SERVICES)
    with pytest.raises(MissingPartError, match="cannot be loaded"):
        spec.make("extract", f'spacy(model="{tmp_path}")').extract([TEXT], SERVICES)


def test_missing_spacy_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "spacy":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingPartError, match=r"pip install 'surefind\[spacy\]'"):
        spec.make("extract", "spacy(model=en_not_loaded_yet)").extract([TEXT], SERVICES)
