"""A quote says "at most": it holds for every nesting of stages, whatever the model answers, and so does a budget."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from cases import each, mostly_long
from llm_server import LLMServer
from llm_steps import CHUNKS, services_for
from memory_view import MemoryView
from scripted_models import SCRIPTED, scripted
from surefind.base.abilities import paid_calls
from surefind.base.access import Access
from surefind.base.prompts.values import Workload
from surefind.base.spec import make
from surefind.base.types import Mask, Query
from surefind.engine.llm.address import LLMSettings
from surefind.engine.llm.models import quote
from surefind.engine.search.pipeline import Pipeline, Reading
from surefind.engine.services import LocalServices
from surefind.lab.bench.cost import again, calls_of, stages_of

QUERIES = [Query("cash report"), Query("who opens the safe?")]
WORK = Workload(len(QUERIES), len(CHUNKS), len(CHUNKS), 10, 10)


def nested(dice: random.Random, depth: int) -> str:
    """A retriever, with up to `depth` others around it."""
    if depth == 0:
        leaf = ["bm25", "tfidf", "dense(model=toy)", "graph_local(model=toy, extract=regex, entities=llm)"]
        return dice.choice(leaf)
    inner = nested(dice, depth - 1)
    drafts, rewrites = dice.choice([1, 1, 2, 3]), dice.choice([1, 2, 3])
    shapes = [
        f"hyde(retriever={inner}, drafts={drafts}, query={dice.choice(['true', 'false'])})",
        f"multi_query(retriever={inner}, rewrites={rewrites})",
    ]
    if "graph" not in inner and "ppr" not in inner and "multi_query" not in inner:  # these cannot be seeds
        shapes.append(f"ppr(seed=[{inner}, bm25], extract=regex)")
    return dice.choice(shapes)


def pipeline(dice: random.Random) -> str:
    retrievers = [nested(dice, dice.randrange(4)) for _ in range(dice.choice([1, 1, 2]))]
    first = " + ".join(retrievers) + f" @{dice.choice([2, 3, 8])}"
    stages = [first]
    if len(retrievers) > 1:
        stages.append(dice.choice(["rrf", "llm_weights", "llm_weights(mode=query, reverse=false)"]))
    rerankers = [
        "llm_listwise(top=4, keep=2)", "agentic(steps=2, branch=2)",
        "slidegar(window=4, step=2)", "conditional(stage=agentic(steps=3, branch=1), when=margin, below=9.0)",
        "conditional(stage=conditional(stage=llm_listwise, below=9.0), below=9.0)",
    ]  # fmt: skip
    stages += dice.sample(rerankers, dice.choice([0, 0, 1, 1, 2]))
    return " >> ".join(stages)


def quoted(text: str, services: Any) -> int:
    parsed = Pipeline.parse(text)
    return quote(services.llm, calls_of(dict(stages_of(parsed)), again(parsed), WORK)).calls


def asked(text: str, services: Any) -> None:
    view = MemoryView(CHUNKS, services, Mask(None))
    for _ in range(2):  # the second search is answered from the cache
        Pipeline.parse(text).run(QUERIES, 8, Reading(view, services, Access.owner()))


def answers(dice: random.Random, llm: LLMServer) -> None:
    """The model answers as one that cannot do what it is asked, sometimes with nothing."""
    model, silence = dice.choice(SCRIPTED), dice.choice([0.0, 0.0, 0.3, 1.0])
    llm.reply = lambda prompt: "" if dice.random() < silence else scripted(model)(prompt)


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("seed", mostly_long(range(60), 12))
def test_no_nesting_of_stages_makes_more_calls_than_quoted(llm: LLMServer, tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    text = pipeline(dice)
    answers(dice, llm)
    services = LocalServices(cache_folder=tmp_path, llm=LLMSettings(model=llm.model, retries=0))
    most = quoted(text, services)
    asked(text, services)
    assert len(llm.bodies) <= most, text


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("seed", mostly_long(range(60, 80), 6))
def test_budget_holds_in_each(llm: LLMServer, tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    text = pipeline(dice)
    answers(dice, llm)
    prices = {llm.model: (1000.0, 4000.0)}
    budget = dice.choice([0.0, 2.0, 10.0])
    settings = LLMSettings(model=llm.model, retries=0, prices=prices, budget=budget)
    services = LocalServices(cache_folder=tmp_path, llm=settings)
    asked(text, services)
    assert services.meter.spent.dollars <= budget, text
    assert budget or not llm.bodies


@each(
    ("text", "calls"),
    [
        ("hyde(retriever=bm25)", 1),
        ("hyde(retriever=bm25, drafts=3)", 3),
        ("multi_query(retriever=bm25)", 1),
        ("hyde(retriever=multi_query(retriever=bm25))", 1 + 3),
        ("hyde(retriever=multi_query(retriever=bm25), drafts=2)", 2 + 4),
        ("multi_query(retriever=hyde(retriever=bm25, drafts=2), rewrites=3)", 1 + 4 * 2),
        ("hyde(retriever=hyde(retriever=multi_query(retriever=bm25)))", 1 + 3 * (1 + 3)),
        ("ppr(seed=[hyde(retriever=bm25), multi_query(retriever=bm25)])", 2),
    ],
)
def test_a_wrapper_multiplies_what_its_inner_stage_may_cost(text: str, calls: int) -> None:
    assert sum(one.calls for one in paid_calls(make("retrieve", text), Workload(queries=1, chunks=8))) == calls


def test_inner_stages_are_quoted_for_the_longer_queries_that_they_get(llm: LLMServer) -> None:
    (outer, inner) = paid_calls(make("retrieve", "hyde(retriever=multi_query(retriever=bm25))"), Workload(queries=1))
    plain = paid_calls(make("retrieve", "multi_query(retriever=bm25)"), Workload(queries=3))[0]
    assert inner.tokens_in == plain.tokens_in + 3 * 300 and inner.tokens_out == plain.tokens_out
    assert services_for(llm) and outer.calls == 1


def test_two_rerankers_that_search_again_are_both_counted() -> None:
    parsed = Pipeline.parse("hyde(retriever=bm25) >> agentic(steps=2, branch=2) >> agentic(steps=3, branch=1)")
    calls = calls_of(dict(stages_of(parsed)), again(parsed), Workload(queries=10, chunks=8))
    assert [one.calls for one in calls] == [10 * (1 + 2 + 2), 10 * 2 * 2, 10 * 2 * 3]


def test_the_worst_case_is_reached(llm: LLMServer, tmp_path: Path) -> None:
    """So the quote is a bound and not a guess: the first case of the issue makes four calls a question."""
    words = iter(range(1000))
    llm.reply = lambda prompt: (
        f'{{"queries": ["cash {next(words)}"]}}' if "other queries" in prompt else f"cash is counted {next(words)}"
    )
    services = LocalServices(cache_folder=tmp_path, llm=LLMSettings(model=llm.model, retries=0))
    text = "hyde(retriever=multi_query(retriever=bm25))"
    asked(text, services)
    assert len(llm.bodies) == quoted(text, services) == 4 * len(QUERIES)


def test_an_empty_answer_is_paid_for_once(llm: LLMServer, tmp_path: Path) -> None:
    llm.reply = lambda prompt: ""
    services = LocalServices(cache_folder=tmp_path, llm=LLMSettings(model=llm.model, retries=0))
    asked("multi_query(retriever=bm25) @2", services)
    assert len(llm.bodies) == len(QUERIES)
