"""What a benchmark will run: grids, presets, settings, and complaints before anything runs."""

from __future__ import annotations

import pytest

from cases import each
from exam_helpers import query
from surefind.base.abilities import paid_calls
from surefind.base.errors import ConfigError, SpecError
from surefind.base.prompts.values import Workload
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.write.layout import Layout
from surefind.kb.settings.config import default_settings, parse_settings
from surefind.lab.bench.plan import (
    DEFAULT_MEASURES,
    Contender,
    Plan,
    across,
    compares_layouts,
    current,
    distinct,
    expand,
    from_settings,
    from_texts,
    layouts_from_texts,
    parse_measures,
    preset,
    preset_names,
    short,
)
from surefind.lab.exam.model import Exam, Judgment

EXAM = Exam("e", (query("1", "?", Judgment("a.md")),))
NAMED = {"words": Pipeline.parse("bm25"), "hybrid": Pipeline.parse("bm25 + dense >> convex(alpha=0.3)")}


def names(*texts: str) -> list[str]:
    return [contender.name for contender in from_texts(texts, NAMED)]


# ---------------------------------------------------------------- grids


def test_list_of_values_is_a_grid_and_lists_are_crossed() -> None:
    assert expand("bm25") == ["bm25"]
    pair = "bm25 + dense >> "
    assert expand(f"{pair}convex(alpha=[0.1, 0.3])") == [f"{pair}convex(alpha=0.1)", f"{pair}convex(alpha=0.3)"]
    weighted = [f"{pair}rrf(weights=[1, 2])", f"{pair}rrf(weights=[2, 1])"]
    assert expand(f"{pair}rrf(weights=[[1, 2], [2, 1]])") == weighted
    assert len(expand("bm25 + dense >> rrf(k=60, weights=[1, 2])")) == 1, "a list for a list is one value"
    assert len(expand("bm25(k1=[0.9, 1.2, 1.5], b=[0.4, 0.75])")) == 6
    assert len(expand("bm25(k1=[0.9, 1.2]) + dense >> rrf(k=[10, 60])")) == 4, "lists of several stages"


def test_grid_keeps_the_depth() -> None:
    assert [Pipeline.parse(text).depth for text in expand("bm25(b=[0.1, 0.2]) @50")] == [50, 50]


# ---------------------------------------------------------------- contenders


def test_row_is_named_without_default_parameters() -> None:
    text = "bm25(k1=0.9) + dense @50 >> convex(alpha=0.3)"
    assert short(Pipeline.parse(text)) == text


def test_pipeline_of_the_settings_keeps_its_name() -> None:
    assert names("words", "bm25(k1=0.9)") == ["words", "bm25(k1=0.9)"]


def test_same_pipeline_under_two_names_is_run_once() -> None:
    assert names("words", "bm25", "bm25(k1=1.5)") == ["words"]


def test_second_name_of_a_pipeline_is_kept_as_an_alias() -> None:
    (made,) = distinct([Contender(name, Pipeline.parse("bm25")) for name in ("BM25", "words", "lexical", "words")])
    assert (made.name, made.aliases) == ("BM25", ("words", "lexical"))
    (again,) = distinct([made, Contender("more", Pipeline.parse("bm25"))])
    assert again.aliases == ("words", "lexical", "more")


def test_spec_of_a_row_is_no_alias_of_it() -> None:
    (made,) = distinct(from_texts(["words", "bm25"], NAMED))
    assert made.aliases == ()


def test_alias_never_has_the_name_of_another_row() -> None:
    pairs = [("a", "bm25"), ("b", "bm25"), ("b", "dense"), ("a", "dense")]
    first, second = distinct([Contender(name, Pipeline.parse(text)) for name, text in pairs])
    assert (first.name, first.aliases) == ("a", ())
    assert (second.name, second.aliases) == ("b", ())


@each(
    ("first", "second", "same"),
    [
        ("convex(alpha=0.5)", "rsf", True),
        ("convex(alpha=0.75)", "rsf(weights=[1, 3])", True),
        ("convex(alpha=0.5, missing=score)", "weighted(weights=[1, 1], missing=score)", True),
        ("tm2c2(alpha=0.25)", "weighted(weights=[3, 1], norm=floor)", True),
        ("convex(alpha=0.5)", "weighted(weights=[1, 1], missing=score)", False),
        ("convex(alpha=0.3)", "rsf", False),
        ("rrf(k=60)", "rsf", False),
    ],
)
def test_fusers_that_are_the_same_under_two_names_share_a_row(first: str, second: str, same: bool) -> None:
    made = distinct([Contender(fuser, Pipeline.parse(f"bm25 + dense >> {fuser}")) for fuser in (first, second)])
    assert [one.name for one in made] == ([first] if same else [first, second])
    assert made[0].aliases == ((second,) if same else ())


def test_rsf_of_other_rankings_than_one_dense_and_one_other_is_itself() -> None:
    texts = ["bm25 + tfidf >> rsf", "bm25 + dense + tfidf >> rsf", "bm25 + tfidf >> weighted"]
    assert len(distinct([Contender(text, Pipeline.parse(text)) for text in texts])) == 3


def test_aliases_are_kept_across_layouts() -> None:
    contenders = distinct([Contender(name, Pipeline.parse("bm25")) for name in ("BM25", "words")])
    cuts = layouts_from_texts(["whole", "fixed"])
    assert [one.aliases for one in across([*contenders, Contender("v", Pipeline.parse("dense"))], cuts)][::2] == [
        ("whole | words",),
        ("fixed | words",),
    ]


def test_two_pipelines_never_share_a_name() -> None:
    made = distinct([Contender("x", Pipeline.parse("bm25")), Contender("x", Pipeline.parse("dense"))])
    assert [contender.name for contender in made] == ["x", "x (2)"]


def test_shared_retrievers_are_counted_once() -> None:
    made = from_texts(["bm25", "dense", "bm25 + dense >> rrf(k=[10, 60])"], {})
    assert len(Plan(tuple(made), EXAM, parse_measures(["R@5"])).retrievers()) == 2


def test_another_depth_is_another_retrieval() -> None:
    made = from_texts(["bm25", "bm25 @50"], {})
    assert len(Plan(tuple(made), EXAM, parse_measures(["R@5"])).retrievers()) == 2


# ---------------------------------------------------------------- presets


def test_the_pipeline_in_use_is_compared_with_a_preset() -> None:
    settings = default_settings()
    (own,) = current(settings)
    assert (own.name, own.pipeline) == (settings.pipeline, settings.pipelines[settings.pipeline])
    contenders, _ = preset("context-layer", [own])
    assert own in contenders
    assert compares_layouts("chunking") and not compares_layouts("context-layer")


ASKING = [
    "bm25 >> llm_listwise",
    "bm25 >> conditional(stage=llm_listwise)",
    'bm25 >> conditional(stage="conditional(stage=llm_listwise)")',
    "bm25 + dense >> llm_weights",
    "multi_query(retriever=hyde)",
    "graph_local(entities=llm)",
    "graph_global(summaries=llm)",
    "ppr(seed=[hyde])",
]
FREE = ["bm25", "graph_local", "graph_global", "graph_local(extract=llm)", "bm25 >> conditional(stage=cross_encoder)"]


@each("text", [*ASKING, *FREE])
def test_a_pipeline_says_whether_a_query_asks_a_language_model(text: str) -> None:
    assert Pipeline.parse(text).asks_llm == (text in ASKING)


def test_a_stage_inside_another_is_quoted_as_often_as_it_runs() -> None:
    """Two rewrites and the question are three searches of the inner retriever, with two drafts each."""
    (nested,) = Pipeline.parse('multi_query(retriever="hyde(drafts=2)", rewrites=2)').retrieve
    assert [calls.calls for calls in paid_calls(nested, Workload(queries=10))] == [10, 60]


@each("text", ["llm_segments", "markdown + llm_context", "markdown + headings"])
def test_a_layout_says_whether_it_asks_a_language_model(text: str) -> None:
    assert Layout.read(text).asks_llm == ("llm" in text)
    assert not Layout.read(text).offline().asks_llm


@each("more", ["llm_listwise", "conditional(stage=llm_listwise)"])
def test_a_pipeline_in_use_that_asks_a_language_model_is_left_out(more: str) -> None:
    text = f'[search]\npipeline = "mine"\n[pipelines.mine]\nretrieve = ["bm25"]\nrerank = ["{more}"]\n'
    assert current(parse_settings(text, "surefind.toml")) == []


@each("name", preset_names())
def test_preset_can_be_read(name: str) -> None:
    contenders, measures = preset(name)
    assert contenders and parse_measures(measures)


def test_context_layer_has_the_fifteen_configurations_of_its_study() -> None:
    contenders, measures = preset("context-layer")
    assert len([name for one in contenders for name in (one.name, *one.aliases)]) == 15
    assert [one.name for one in contenders if "RSF" in one.aliases] == ["Convex α=0.5"]
    assert measures == ("nDCG@10", "R@5", "R@10", "RR@10", "P@5")


def test_context_layer_runs_two_retrievers() -> None:
    contenders, measures = preset("context-layer")
    assert len(Plan(tuple(contenders), EXAM, parse_measures(measures)).retrievers()) == 2


def test_unknown_preset_lists_the_presets() -> None:
    with pytest.raises(SpecError, match=r"no preset 'context'\. .*Choices: .*context-layer"):
        preset("context")


# ---------------------------------------------------------------- settings


def test_settings_without_a_bench_table_run_the_preset_and_the_pipelines() -> None:
    contenders, measures = from_settings({}, {"odd": Pipeline.parse("bm25(k1=0.1)")})
    assert (len(contenders), contenders[-1].name, measures) == (15, "odd", DEFAULT_MEASURES)


def test_pipelines_of_the_bench_table_replace_the_preset() -> None:
    contenders, _ = from_settings({"pipelines": ["words", "bm25(b=[0.1, 0.2])"]}, NAMED)
    assert [contender.name for contender in contenders] == ["words", "bm25(b=0.1)", "bm25(b=0.2)"]


def test_measures_of_the_bench_table_are_taken() -> None:
    assert from_settings({"pipelines": ["words"], "measures": ["R@3"]}, NAMED)[1] == ("R@3",)


def test_unknown_setting_of_the_bench_table_lists_the_choices() -> None:
    with pytest.raises(ConfigError, match=r"\[bench\] has no setting 'pipeline'\. Did you mean pipelines\?"):
        from_settings({"pipeline": []}, NAMED)


# ---------------------------------------------------------------- complaints


@each(
    ("text", "complaint"),
    [
        ("bm26", "no pipeline or retriever called 'bm26'. Did you mean bm25"),
        ("bm25(k2=1)", "bm25 has no parameter 'k2'"),
        ("bm25(b=[0.5, 2])", "b must be from 0 to 1"),
        ("bm25(k1=[0.5, yes])", "k1"),
        ("bm25 + dense >> rff", "no fuser called 'rff'. .*Choices: combmnz"),
        ("bm25 + dense >> convex(alpha=[0.1, 1.1])", "alpha must be"),
        ("bm25 >> rrf", "no reranker called 'rrf'"),
        ("bm25 @many", "depth 'many'"),
        ("", "''"),
    ],
)
def test_bad_pipeline_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        from_texts([text], NAMED)


def test_plan_without_pipelines_is_refused() -> None:
    with pytest.raises(SpecError, match="at least one pipeline"):
        Plan((), EXAM, parse_measures(["R@5"]))


def test_plan_without_measures_is_refused() -> None:
    with pytest.raises(SpecError, match="at least one measure"):
        Plan(tuple(from_texts(["bm25"], {})), EXAM, parse_measures([]))


def test_bad_measure_is_refused() -> None:
    with pytest.raises(SpecError, match="no measure 'nDCG'"):
        parse_measures(["R@5", "nDCG"])


def test_measure_given_twice_is_computed_once() -> None:
    assert list(map(str, parse_measures(["nDCG@10", "ndcg@10", "R@5"]))) == ["nDCG@10", "R@5"]
