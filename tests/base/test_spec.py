"""Specs: text <-> stage, and the complaints."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from surefind.base import spec
from surefind.base.errors import MissingPartError, SpecError
from surefind.base.spec import Stage, build, format_spec, make, parse_spec
from surefind.engine.chunk.fixed import Fixed
from surefind.engine.fuse.convex import Convex
from surefind.engine.fuse.rrf import RRF
from surefind.engine.retrieve.bm25 import BM25
from surefind.engine.search.pipeline import Pipeline

finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | st.integers() | finite | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=8)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)


@given(names, st.dictionaries(names, values, max_size=4))
def test_any_parameters_read_back_as_they_were_written(name: str, parameters: dict[str, Any]) -> None:
    assert parse_spec(format_spec(name, parameters.items())) == (name, parameters)


@given(names, st.dictionaries(names, scalars, max_size=3), names)
def test_a_spec_inside_a_spec_reads_back(name: str, parameters: dict[str, Any], outer: str) -> None:
    inner = format_spec(name, parameters.items())
    assert parse_spec(format_spec(outer, [("stage", inner)])) == (outer, {"stage": inner})


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused_with_a_spec_error(text: str) -> None:
    try:
        name, parameters = parse_spec(text)
    except SpecError:
        return
    assert parse_spec(format_spec(name, parameters.items())) == (name, parameters)


@given(st.floats(0, 1e6), st.floats(0, 1), st.sampled_from(["english", "plain", "english(stem=false)"]))
def test_bm25_reads_back_as_the_same_stage(k1: float, b: float, analyzer: str) -> None:
    stage = BM25(k1, b, analyzer)
    assert make("retrieve", str(stage)) == stage


@given(st.floats(0, 1e6), st.none() | st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=4).map(tuple))
def test_rrf_reads_back_as_the_same_stage(k: float, weights: tuple[float, ...] | None) -> None:
    assert make("fuse", str(RRF(k, weights))) == RRF(k, weights)


@given(st.integers(1, 10**6), st.data())
def test_fixed_reads_back_as_the_same_stage(tokens: int, data: st.DataObject) -> None:
    stage = Fixed(tokens, data.draw(st.integers(0, tokens - 1)))
    assert make("chunk", str(stage)) == stage


def test_text_form_shows_every_parameter() -> None:
    assert str(make("retrieve", "bm25")) == "bm25(k1=1.5, b=0.75, analyzer=auto)"


def test_an_integer_where_a_float_is_meant_gives_the_same_stage() -> None:
    assert str(make("fuse", "rrf(k=60)")) == str(make("fuse", "rrf(k=60.0)")) == "rrf(k=60.0)"


def test_spaces_do_not_matter() -> None:
    assert make("chunk", "  fixed ( tokens = 9 ,overlap=1 ) ") == Fixed(9, 1)


def test_replace_changes_one_parameter_and_checks_it() -> None:
    assert Convex(0.3).replace(alpha=1) == Convex(1.0)
    with pytest.raises(SpecError, match="alpha must be from 0 to 1"):
        Convex(0.3).replace(alpha=2.0)


@each("kind", spec.KINDS)
def test_unknown_stage_lists_every_stage_of_its_kind(kind: str) -> None:
    with pytest.raises(SpecError) as caught:
        make(kind, "nonesuch")
    assert "'nonesuch'" in str(caught.value)
    for name in spec.names(kind):
        assert name in str(caught.value)


@each(
    ("kind", "text", "words"),
    [
        ("retrieve", "bm52", r"Did you mean bm25\?"),
        ("retrieve", "bm25(k2=1)", r"bm25 has no parameter 'k2'\. Choices: analyzer, b, k1\."),
        ("chunk", "whole(tokens=5)", r"whole has no parameter 'tokens'\. Choices: none\."),
        ("embed", "broken", r"The plugin 'broken' \(toy_stages:NoSuchClass\) cannot be loaded"),
    ],
)
@pytest.mark.usefixtures("toys")
def test_what_does_not_exist_is_answered_with_what_does(kind: str, text: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        make(kind, text)


@each(
    ("kind", "text", "words"),
    [
        ("retrieve", "bm25(k1=abc)", "k1 must be a number"),
        ("retrieve", "bm25(k1=true)", "k1 must be a number"),
        ("retrieve", "bm25(k1=-1)", "k1 must be at least 0"),
        ("retrieve", "bm25(b=2)", "b must be from 0 to 1"),
        ("retrieve", "bm25(analyzer=klingon)", "no analyzer called 'klingon'"),
        ("retrieve", "dense(model=gpt)", "no encoder called 'gpt'"),
        ("chunk", "fixed(tokens=2.5)", "tokens must be a whole number"),
        ("chunk", "fixed(tokens=5, overlap=5)", "overlap must be at least 0 and below tokens"),
        ("chunk", "fixed(tokens=0)", "tokens must be at least 1"),
        ("chunk", "markdown(min_tokens=300)", "min_tokens must be from 0 to tokens"),
        ("fuse", "rrf(k=-1)", "k must be at least 0"),
        ("fuse", "rrf(weights=[1, -1])", "weights must not be negative"),
        ("fuse", "rrf(weights=[0, 0])", "weights must not be negative, and not all 0"),
        ("fuse", "dbsf(weights=[])", "weights must not be negative, and not all 0"),
        ("fuse", "rrf(weights=3)", "weights must be a list of numbers, like [1, 2]."),
        ("fuse", "weighted(bm25=high, dense=1)", "bm25 must be a number"),
        ("fuse", "weighted(bm25=0, dense=0)", "weights must not be negative, and not all 0"),
        ("fuse", "weighted(bm25=1, weights=[1, 1])", "give weights by name or as a list, not both"),
        ("fuse", "weighted(nrom=floor)", "no parameter 'nrom'. Did you mean norm?"),
        ("fuse", "weighted(weight=2)", "no parameter 'weight'. Did you mean weights?"),
        ("fuse", "tm2c2(missing=floor)", "missing must be score."),
        ("retrieve", "graph_local(hops=3)", "hops must be 0 or 1 or 2."),
        ("fuse", "convex(alpha=1.5)", "alpha must be from 0 to 1"),
    ],
)
def test_bad_value_is_named_with_its_rule(kind: str, text: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        make(kind, text)
    assert words in str(caught.value)


@each(
    ("text", "words"),
    [
        ("", "expected a stage name at column 1, found the end"),
        ("rrf(k=60", r"expected '\)' at column 9, found the end"),
        ("rrf(k 60)", "expected '=' at column 7, found '6'"),
        ("rrf(k=)", r"expected a value at column 7, found '\)'"),
        ("rrf(60)", "expected a parameter name at column 5"),
        ("rrf(k=60) more", "expected the end at column 11"),
        ("rrf(k=1, k=2)", "gives 'k' twice"),
        (r'rrf(k="\x")', "bad escape"),
    ],
)
def test_unreadable_spec_shows_text_and_place(text: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        parse_spec(text)


@each("text", ["bm25(k1=1e999)", "rrf(k=1e999)"])
def test_number_beyond_floats_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        make("retrieve" if "bm25" in text else "fuse", text)


@pytest.mark.parametrize("value", ["1" * 5000, "1" * 400, "[" * 3000], ids=["digits", "overflow", "nesting"])
def test_absurd_value_is_refused_with_a_spec_error(value: str) -> None:
    with pytest.raises(SpecError):
        make("retrieve", f"bm25(k1={value})")


def test_work_grows_with_the_length_of_a_nested_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[object] = []
    read = spec._SpecParser.spec
    monkeypatch.setattr(spec._SpecParser, "spec", lambda self: (parsed.append(self), read(self))[1])
    text = "x"
    for _ in range(12):
        text = f"a(b={text})"
    parse_spec(text)
    assert len(parsed) < 200


def test_infinite_defaults_never_appear_in_built_in_specs() -> None:
    for kind in spec.KINDS:
        for name in spec.names(kind):
            _, parameters = parse_spec(str(make(kind, name)))
            assert all(math.isfinite(v) for v in parameters.values() if isinstance(v, float))


# ---------------------------------------------------------------- what goes wrong while a stage is made


@dataclass(frozen=True)
class Picky(Stage):
    kind: ClassVar[str] = "rerank"
    name: ClassVar[str] = "picky"

    model: str
    top: int
    blame: str = ""

    def __post_init__(self) -> None:
        if self.blame == "type":
            len(self.top)  # type: ignore[arg-type]
        if self.blame == "argument":
            self.__str__(1)  # type: ignore[call-arg]
        if self.blame == "value":
            raise ValueError("no such planet")
        if self.blame == "part":
            raise MissingPartError("The moon is not installed.")


@each(
    ("parameters", "complaint"),
    [
        ({"top": 5}, r"picky needs a value for model\. Write it like 'picky\(model=…\)'\."),
        ({}, r"picky needs a value for model, top\. Write it like 'picky\(model=…, top=…\)'\."),
        ({"modle": "x", "top": 5}, r"picky has no parameter 'modle'\. Did you mean model\?"),
    ],
)
def test_missing_and_unknown_parameters_are_named(parameters: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        build(Picky, parameters)


@each(
    ("blame", "cause", "words"),
    [
        ("type", TypeError, r"TypeError: object of type 'int' has no len\(\)"),
        ("argument", TypeError, r"TypeError: .*takes 1 positional argument but 2 were given"),
        ("value", ValueError, "ValueError: no such planet"),
    ],
)
def test_error_of_the_stage_itself_is_told_with_its_cause(blame: str, cause: type[Exception], words: str) -> None:
    with pytest.raises(SpecError, match=rf"picky\(model=x, top=5, blame={blame}\) cannot be built \({words}\)") as told:
        build(Picky, {"model": "x", "top": 5, "blame": blame})
    assert isinstance(told.value.__cause__, cause)


def test_error_that_has_a_sentence_of_its_own_keeps_it() -> None:
    with pytest.raises(MissingPartError, match=r"^The moon is not installed\.$"):
        build(Picky, {"model": "x", "top": 5, "blame": "part"})


# ---------------------------------------------------------------- plugins


@pytest.mark.usefixtures("toys")
def test_plugin_is_listed_beside_the_built_ins() -> None:
    assert {"minilm", "toy"} <= set(spec.names("embed"))


@pytest.mark.usefixtures("toys")
def test_plugin_is_made_from_its_spec() -> None:
    assert str(make("rerank", "shared_words")) == "shared_words"
    assert make("retrieve", "labelled(label=x, b=0)").label == "x"


@pytest.mark.usefixtures("toys")
def test_plugin_with_a_method_that_nobody_calls_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = spec._plugins("rerank")["shared_words"].load()
    monkeypatch.setattr(toy, "learnt", lambda self, services: frozenset({"q"}), raising=False)
    with pytest.raises(
        SpecError, match=r"The plugin 'shared_words' defines learnt\(\)\. Call that method training_questions"
    ):
        make("rerank", "shared_words")


@pytest.mark.usefixtures("toys")
def test_plugin_cannot_take_the_place_of_a_built_in(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = spec._plugins("embed")["toy"]
    monkeypatch.setattr(spec, "_plugins", lambda kind: {"minilm": toy})
    assert spec.find("embed", "minilm").__module__ == "surefind.engine.embed.minilm"


# ---------------------------------------------------------------- pipelines


@each(
    "text",
    [
        "bm25",
        "bm25(k1=0.9)",
        "bm25 + dense",
        "bm25 + dense >> convex(alpha=0.5)",
        "bm25 + dense @50 >> rrf(k=10)",
        "bm25 + bm25(k1=0) + dense >> rrf(weights=[1, 2, 3])",
    ],
)
def test_pipeline_reads_back_as_the_same_pipeline(text: str) -> None:
    pipeline = Pipeline.parse(text)
    assert Pipeline.parse(str(pipeline)) == pipeline


def test_several_retrievers_without_a_fuser_are_joined_by_rrf() -> None:
    assert Pipeline.parse("bm25 + dense").fuse == RRF(60.0)


def test_name_is_no_part_of_a_pipelines_identity() -> None:
    assert Pipeline.of(["bm25"], name="a") == Pipeline.of(["bm25"], name="b")


@pytest.mark.usefixtures("toys")
def test_pipeline_keeps_separators_inside_quotes() -> None:
    pipeline = Pipeline.of(['labelled(label="a + b >> c")', "bm25"])
    assert Pipeline.parse(str(pipeline)) == pipeline


@pytest.mark.usefixtures("toys")
@each("label", ["a@b", "back\\"])
def test_pipeline_keeps_any_text_inside_a_spec(label: str) -> None:
    pipeline = Pipeline.of(["bm25", str(make("retrieve", "labelled").replace(label=label))])
    assert Pipeline.parse(str(pipeline)) == pipeline


@each(
    ("text", "words"),
    [
        ("", "expected a stage name"),
        ("bm25 +", "expected a stage name"),
        ("bm25 @x", "Cannot read the depth 'x'"),
        ("bm25 @0", "depth must be at least 1, not 0"),
        ("bm25 >> rrf", "no reranker called 'rrf'"),
        ("bm25 + dense >> bm25", "no fuser called 'bm25'"),
    ],
)
def test_bad_pipeline_says_what_is_wrong(text: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        Pipeline.parse(text)
    assert words in str(caught.value)


def test_fuser_with_one_retriever_is_refused() -> None:
    with pytest.raises(SpecError, match="Give two or more retrievers"):
        Pipeline.of(["bm25"], "rrf")


def test_pipeline_without_retriever_is_refused() -> None:
    with pytest.raises(SpecError, match="at least one retriever"):
        Pipeline.of([])
