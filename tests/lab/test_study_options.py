"""The options of `surefind study` that all studies share: the encoder, the layout, the layout of later stages."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import each
from exam_helpers import surefind
from llm_server import LLMServer
from study_helpers import make_base, tables_of
from surefind.lab.study.context import Options, RunContext, Wanted, open_collections
from surefind.lab.study.stage import find_study
from surefind.lab.study.studies.agentic_kb import _fusion, _layering, _reranking
from surefind.lab.study.studies.agentic_kb import _setting as paper

pytestmark = pytest.mark.usefixtures("remembered_models")

OTHER = 'prefixed(model=minilm, query="find: ", passage="text: ")'


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base(tmp_path_factory.mktemp("options"))


@each("name", ["agentic-kb", "cascade", "context-layer", "support-chatbot"])
def test_one_encoder_takes_the_place_of_the_default_in_every_study(base: Path, name: str) -> None:
    (mine,) = open_collections(base, Wanted(("mine",), questions=9))
    with mine.kb:
        context = RunContext(mine, Options(encoders=(OTHER,)))
        every = [one for stage in find_study(name).stages for one in stage.contenders(context, {})]
    text = [str(one) for one in every]
    assert any("prefixed" in one for one in text)
    assert not [one for one in text if "dense(model=minilm)" in one or ("semantic" in one and "prefixed" not in one)]


def test_the_encoder_is_measured_and_repeated_in_the_command(base: Path) -> None:
    words = ("study", "context-layer", "--exam", "mine", "--questions", "9", "--offline", "--only", "Results", "--json")
    table = tables_of(surefind(*words, "--encoder", OTHER, kb=base))["Results"]
    assert "prefixed" in next(row["spec"] for row in table["rows"] if row["name"] == "Vector")
    assert "--encoder 'prefixed" in table["command"]


@each("name", ["agentic-kb", "cascade", "context-layer"])
def test_two_encoders_are_refused_where_none_are_compared(base: Path, name: str) -> None:
    wrong = surefind("study", name, "--encoder", "minilm", "--encoder", OTHER, "--offline", kb=base)
    assert wrong.code == 2 and "Give one --encoder" in wrong.err


def test_a_layout_that_would_have_no_effect_is_refused(base: Path) -> None:
    wrong = surefind("study", "agentic-kb", "--layout", "whole()", "--offline", kb=base)
    assert wrong.code == 2 and "--layout has no effect" in wrong.err and "--winner" in wrong.err


def test_the_tables_that_a_layout_does_not_concern_are_named(base: Path) -> None:
    words = ("study", "support-chatbot", "--exam", "mine", "--questions", "9", "--offline", "--only", "Table 6")
    ran = surefind(*words, "--layout", "whole()", "--json", kb=base)
    assert ran.code == 0 and "--layout does not concern Table 6" in ran.err
    assert "does not concern" not in surefind(*words, "--json", kb=base).err


def test_the_winner_may_be_that_of_the_thesis(base: Path) -> None:
    (mine,) = open_collections(base, Wanted(("mine",), questions=9))
    before = {"chunking": {"winner": "fixed-700-20"}}
    with mine.kb:
        for options, chunker in ((Options(), "fixed("), (Options(winner=paper.AGENTIC_1), "hierarchical(")):
            context = RunContext(mine, options)
            later = [*_fusion.contenders(context, before), *_reranking.contenders(context, before)]
            assert all(str(one.layout).startswith(chunker) for one in later)
            assert all("llm_context" in str(one.layout) for one in later) is bool(options.winner)


def test_the_limits_of_the_thesis_may_be_exchanged_for_ours(base: Path) -> None:
    (mine,) = open_collections(base, Wanted(("mine",), questions=9))
    with mine.kb:
        found = {}
        for limits in ("paper", "surefind"):
            context = RunContext(mine, Options(limits=limits, winner=paper.AGENTIC_1))
            stages = (_layering.cuts, _layering.links, _fusion.contenders, _reranking.contenders)
            every = [one for stage in stages for one in stage(context, {})]
            found[limits] = {str(one.layout) for one in every if "llm_" in str(one.layout)}
    assert all("document_tokens=null" in text and "max_tokens=1000" in text for text in found["paper"])
    assert sum("part_words=null" in text and "hierarchical(" in text for text in found["paper"]) == 1
    assert not [text for text in found["surefind"] if "=null" in text or "tokens=1000" in text]
    assert all("prompt=paper" in text for texts in found.values() for text in texts)
    wrong = surefind("study", "cascade", "--limits", "surefind", "--offline", kb=base)
    assert wrong.code == 2 and "take agentic-kb" in wrong.err
    other = surefind("study", "agentic-kb", "--limits", "papers", "--offline", kb=base)
    assert other.code == 2 and "Did you mean paper?" in other.err


def test_a_winner_that_cannot_be_made_is_refused(base: Path, llm: LLMServer) -> None:
    words = ("study", "agentic-kb", "--exam", "mine", "--winner")
    offline = surefind(*words, "agentic-1", "--offline", kb=base)
    assert offline.code == 2 and "A language model makes the layout agentic-1" in offline.err
    unknown = surefind(*words, "agentic-3", "--llm", llm.model, kb=base)
    assert unknown.code == 2 and "Did you mean agentic-" in unknown.err and not llm.bodies
    other = surefind("study", "cascade", "--winner", "agentic-1", "--offline", kb=base)
    assert other.code == 2 and "take agentic-kb" in other.err
