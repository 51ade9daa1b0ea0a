"""The LLM steps in a benchmark: many questions at a time, every answer paid for once, failures said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exam_helpers import query
from helpers import Home, ask
from llm_server import LLMServer
from llm_steps import ranking
from surefind.base.abilities import paid_calls
from surefind.base.errors import BudgetError, UsageError
from surefind.base.prompts.values import Workload
from surefind.engine.llm.prices import Price, tokens
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.write.layout import Layout
from surefind.lab.bench.cost import quote_for
from surefind.lab.bench.engine import Bench
from surefind.lab.bench.files import markdown
from surefind.lab.bench.plan import Contender, Plan, from_texts, parse_measures
from surefind.lab.bench.report import BenchReport
from surefind.lab.bench.run import run_bench
from surefind.lab.exam.model import Exam, Judgment

DOCUMENTS = {
    "alpha": "The cash report is due on Monday.",
    "beta": "Cash is counted by the teller.",
    "gamma": "A cash drawer is locked.",
    "delta": "The vault log is signed by two people.",
}
EXAM = Exam(
    "e",
    tuple(
        query(f"q{i}", text, Judgment(f"{gold}.md"), family=family)
        for i, (text, gold, family) in enumerate(
            [
                ("cash", "gamma", "one"),
                ("cash the teller", "gamma", "one"),
                ("cash report", "alpha", "two"),
                ("cash is due", "alpha", "two"),
            ]
        )
    ),
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "kb")
    for name, text in DOCUMENTS.items():
        made.write(f"docs/{name}.md", text)
    made.sync("docs")
    return made


def report_of(home: Home, *texts: str, fresh: bool = False) -> BenchReport:
    plan = Plan(tuple(from_texts(texts, {})), EXAM, parse_measures(["RR@10"]))
    with home.open() as kb:
        return run_bench(kb, plan, "", fresh=fresh).report


def steps(llm: LLMServer) -> list[str]:
    model = json.dumps(llm.model)
    return [
        "bm25",
        f"bm25 >> llm_listwise(reverse=false, model={model}, top=3, keep=3)",
        f"bm25 >> slidegar(reverse=false, model={model}, top=3, window=2, step=1)",
        f"bm25 >> agentic(reverse=false, model={model}, steps=2)",
        f"multi_query(retriever=bm25, model={model})",
        f"hyde(retriever=bm25, model={model})",
        f"bm25 + tfidf >> llm_weights(model={model})",
    ]


def reply(prompt: str) -> str:
    if "Steps left" in prompt:
        return json.dumps({"evidence": [1], "enough": "vault log" in prompt, "searches": ["vault log"]})
    if "other queries" in prompt:
        return json.dumps({"queries": ["locked drawer"]})
    if "weight from 0 to 1" in prompt:
        return json.dumps({"bm25": 0.5, "tfidf": 0.5})
    if "plausible" in prompt:
        return "A drawer is locked."
    return ranking(lambda shown: sorted(shown, key=lambda n: ("drawer" not in shown[n], n)))(prompt)


def test_every_step_runs_over_an_exam_and_a_second_run_asks_nothing(home: Home, llm: LLMServer) -> None:
    llm.reply = reply
    first = report_of(home, *steps(llm))
    asked = len(llm.bodies)
    assert first.problems == () and asked > 4 * len(EXAM.queries)
    again = report_of(home, *steps(llm), fresh=True)
    assert len(llm.bodies) == asked
    assert [row.scores for row in again.rows] == [row.scores for row in first.rows]


@pytest.mark.parametrize("step", range(1, 7))
def test_another_model_in_the_settings_is_asked_anew(home: Home, llm: LLMServer, step: int) -> None:
    """A spec that names no model is the same for both: its rankings must not be."""
    llm.reply = reply
    text = (
        steps(llm)[step].replace(f"model={json.dumps(llm.model)}, ", "").replace(f", model={json.dumps(llm.model)}", "")
    )
    text = text.replace(f"(model={json.dumps(llm.model)})", "")
    asked = []
    for name in ("one", "two"):
        address = llm.model.partition("#")[0]
        home.configure(f'[llm]\nmodel = "{address}#{name}"\n')
        assert report_of(home, text).problems == ()
        asked.append(len(llm.bodies))
    assert asked[1] == 2 * asked[0] > 0
    assert {body["model"] for body in llm.bodies} == {"one", "two"}


def test_effect_is_told_by_family(home: Home, llm: LLMServer) -> None:
    """The model puts the drawer first: right for `one`, wrong for `two`."""
    llm.reply = reply
    made = report_of(home, "bm25", f"bm25 >> llm_listwise(reverse=false, model={json.dumps(llm.model)}, top=3, keep=3)")
    before, after = (row.scores for row in made.rows)
    (moved,) = made.rows[1].reranking
    for family, rows in {"one": (0, 1), "two": (2, 3)}.items():
        change = sum(after[i] - before[i] for i in rows) / 2
        assert moved.families[family].mean == pytest.approx(change, abs=1e-4)
        assert moved.families[family].queries == 2
    assert moved.families["one"].mean > 0 > moved.families["two"].mean
    assert "by family: one +0." in markdown(made)


def test_each_stage_that_asks_has_its_price(home: Home, llm: LLMServer) -> None:
    llm.reply = reply
    home.configure(f'[llm.prices]\n"{llm.model}" = [0.0, 1000.0]\n')
    made = report_of(home, "bm25", steps(llm)[5] + " >> " + steps(llm)[2].partition(" >> ")[2])
    stages = made.rows[1].latency_ms.stages
    _, _, asked = markdown(made).partition("Cost of language models:\n\n")
    asked = asked.partition("\n\n")[0]
    assert stages["hyde"].dollars != stages["slidegar"].dollars
    for line, (name, calls) in zip(asked.split("\n"), [("hyde", "1.0"), ("slidegar", "2.0")], strict=True):
        price = f"${1000 * stages[name].dollars:.2f} per 1,000 queries"
        assert f", {name}: {calls} calls and " in line and line.endswith(price)


@pytest.mark.parametrize("step", range(1, 7))
def test_an_endpoint_that_fails_is_a_problem_of_the_report(home: Home, llm: LLMServer, step: int) -> None:
    llm.script = ["401"] * 100
    made = report_of(home, "bm25", steps(llm)[step])
    (problem,) = made.problems
    assert "401" in problem and "4 questions" in problem
    assert problem in markdown(made)
    if step < 6:
        assert made.rows[1].scores == made.rows[0].scores


def test_questions_that_went_without_an_answer_are_counted_and_asked_again(home: Home, llm: LLMServer) -> None:
    llm.reply = lambda prompt: "no" if "cash report" in prompt.lower().split("<query")[1][:60] else reply(prompt)
    step = f"bm25 >> llm_listwise(reverse=false, model={json.dumps(llm.model)}, top=3, keep=3)"
    made = report_of(home, "bm25", step)
    assert "failed for 1 questions" in made.problems[0]


@pytest.mark.parametrize("step", [1, 4])
def test_answers_of_the_fallback_are_a_problem_of_the_report(home: Home, llm: LLMServer, step: int) -> None:
    """A row that another model answered in part is not that of its own model: it is told, and asked again."""
    llm.reply, llm.script = reply, ["401"]
    address = llm.model.partition("#")[0]
    home.configure(f'[llm]\nfallback = "{address}#second"\n')
    (problem,) = report_of(home, "bm25", steps(llm)[step]).problems
    assert "got 1 answers from the fallback" in problem and f"{address}#second answered for {llm.model}" in problem
    assert report_of(home, "bm25", steps(llm)[step]).problems == ()
    assert [body["model"] for body in llm.bodies].count("toy") == len(EXAM.queries) + 1


def test_a_spent_budget_stops_with_the_sum_and_goes_on_later(home: Home, llm: LLMServer) -> None:
    llm.reply = reply
    step = f"bm25 >> llm_listwise(reverse=false, model={json.dumps(llm.model)}, top=3, keep=3, max_tokens=1)"
    plan = Plan(tuple(from_texts(["bm25", step], {})), EXAM, parse_measures(["RR@10"]))
    with home.open() as kb:
        kb.services.llm.chat(llm.model).price = Price(0.0, 1e6)  # a dollar a token of answer
        kb.services.llm.meter.limit = 2.0
        with pytest.raises(BudgetError, match=r"\$\d+\.\d\d was spent on [12] calls"):
            run_bench(kb, plan, "")
    assert len(llm.bodies) in (1, 2), "one that is answered before the next is sent costs more than was reserved"
    assert report_of(home, "bm25", step).problems == ()
    assert len(llm.bodies) == len(EXAM.queries)


def test_a_benchmark_does_not_start_without_a_model(home: Home) -> None:
    with pytest.raises(UsageError, match="No language model is chosen"):
        report_of(home, "bm25", "bm25 >> llm_listwise")


def test_a_quote_is_an_upper_bound_that_is_not_far_off(home: Home, llm: LLMServer) -> None:
    """Of calls exactly, of tokens within a factor of four of what the prompts hold."""
    llm.reply = reply
    text = " ".join(DOCUMENTS.values())
    work = Workload(len(EXAM.queries), 4, 4, tokens(len(text)) // 4, tokens(len(text)) // 4)
    for step in steps(llm)[1:]:
        llm.bodies.clear()
        pipeline = Pipeline.parse(step)
        with home.open() as kb:
            for question in EXAM.queries:
                ask(kb, question.text, pipeline=pipeline)
        (quoted,) = [calls for stage in pipeline.stages for calls in paid_calls(stage, work)]
        held = sum(tokens(len(prompt.encode())) for prompt in llm.prompts)
        assert len(llm.bodies) <= quoted.calls <= 2 * len(llm.bodies), step
        assert held <= quoted.tokens_in <= 4 * held, step


def test_a_layout_that_asks_a_model_is_quoted_without_asking_it(home: Home, llm: LLMServer) -> None:
    llm.say("About locked things.")
    model = json.dumps(llm.model)
    layout = Layout.parse(f"llm_segments(model={model}, tries=1, base=whole)", [f"llm_context(model={model})"])
    plain = Contender("plain", Pipeline.parse("bm25"), Layout.parse("whole"))
    plan = Plan((plain, Contender("asked", Pipeline.parse("bm25"), layout)), EXAM, parse_measures(["RR@10"]))
    with home.open() as kb:
        quote_for(Bench(kb), plan)
        assert llm.bodies == []
        report = run_bench(kb, plan, "").report
    assert len(llm.bodies) == len(DOCUMENTS)  # a context each; one sentence is too short to be segmented
    assert [row.name for row in report.rows] == ["plain", "asked"]
