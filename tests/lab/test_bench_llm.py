"""Language models in a benchmark: quoted, paid for once, timed as if live, stopped by a budget, weighed by price."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cases import each
from exam_helpers import query, surefind
from helpers import WORDS, Home
from llm_server import LLMServer
from surefind.base.errors import BudgetError
from surefind.lab.bench.building import llm_value
from surefind.lab.bench.latency import StageTiming, Timing
from surefind.lab.bench.plan import Plan, from_texts, parse_measures
from surefind.lab.bench.report import BenchReport
from surefind.lab.bench.run import run_bench
from surefind.lab.exam.model import Exam, Judgment
from surefind.lab.exam.store import ExamStore
from surefind.lab.measure.statistics import Comparison

SPELT = "zero one two three four five six seven eight".split()
DOCUMENTS = {f"d{i}": f"{'alpha ' * i}beta document number {SPELT[i]}" for i in range(1, 9)}
EXAM = Exam("e", tuple(query(f"q{i}", f"alpha question {i}", Judgment(f"d{i}.md")) for i in range(1, 9)))


def _wanted(prompt: str) -> str:
    """The number of the passage that the question names."""
    number = SPELT[int(prompt.split("question ")[1].split()[0])]
    found = re.search(rf"^(\d+): .*number {number}$", prompt, re.MULTILINE)
    return found.group(1) if found else "0"


@pytest.fixture
def kb(tmp_path: Path, llm: LLMServer, toys: None) -> Home:
    home = Home(tmp_path / "kb", f'{WORDS}\n[llm]\nmodel = "{llm.model}"\n[llm.prices]\n"{llm.model}" = [0, 1000]\n')
    for name, text in DOCUMENTS.items():
        home.write(f"docs/{name}.md", text)
    home.sync("docs")
    llm.reply = _wanted
    return home


def _bench(home: Home, budget: float | None = None, fresh: bool = False) -> BenchReport:
    with home.open() as kb:
        kb.services.llm.meter.limit = budget
        plan = Plan(tuple(from_texts(["bm25", "bm25 >> asks_model"], {})), EXAM, parse_measures(["RR@10"]))
        return run_bench(kb, plan, "", fresh=fresh).report


def test_calls_dollars_and_time_are_those_of_a_live_query(kb: Home, llm: LLMServer) -> None:
    """An answer is one token, $0.001; eight questions are eight calls, also where everything is computed again."""
    llm.delay = 0.05
    first = _bench(kb)
    assert len(llm.bodies) == 8
    plain, asking = first.rows
    assert (plain.calls, plain.cost_per_1k) == (0, 0)
    assert (asking.calls, asking.cost_per_1k) == (1.0, pytest.approx(1.0))
    stage = asking.latency_ms.stages["asks_model"]
    assert (stage.calls, stage.dollars) == (1.0, 0.001)
    assert stage.p50 >= 50  # it came from the cache, and counts with the time that it took
    again = _bench(kb, fresh=True)
    assert len(llm.bodies) == 8
    assert again.rows[1].cost_per_1k == asking.cost_per_1k
    assert asking.measures["RR@10"].mean == 1.0


def test_verdict_weighs_the_model(kb: Home) -> None:
    assert re.search(
        r"The language model changes RR@10 by \+0\.\d+ \[.*\] \(bm25 >> asks_model against bm25, the best "
        r"configuration without one\), a significant gain\. It costs \$1\.00 and 1,000 calls per 1,000 queries",
        "\n".join(_bench(kb).details),
    )


def test_dead_model_is_told_and_not_kept(kb: Home, llm: LLMServer) -> None:
    llm.script = ["401"] * 500
    report = _bench(kb)
    assert "asks_model failed for 8 questions" in report.problems[0]
    llm.script = []
    assert _bench(kb).problems == ()


def test_budget_ends_a_benchmark_and_the_next_one_goes_on(kb: Home, llm: LLMServer) -> None:
    """A call may cost $0.004 and costs $0.001; $0.006 reach for three: the fourth might pass the limit."""
    with pytest.raises(BudgetError, match=r"\$0\.0060 is too small for the next call"):
        _bench(kb, budget=0.006)
    assert 0 < len(llm.bodies) <= 6
    assert _bench(kb, budget=1.0).problems == ()
    assert len(llm.bodies) == 8


def test_command_quotes_and_asks(kb: Home, llm: LLMServer) -> None:
    ExamStore(kb.folder / ".surefind" / "exams").save(EXAM)
    call = ("bench", "--exam", "e", "-p", "bm25", "-p", "bm25 >> asks_model", "-m", "RR@10", "--json")
    refused = surefind(*call, kb=kb.folder)
    assert (refused.code, llm.bodies) == (2, [])
    assert "This may cost money: 8 calls" in refused.err
    quoted = json.loads(surefind(*call, "--dry-run", kb=kb.folder).out)
    assert (quoted["llm_calls"], quoted["dollars"]) == (8, pytest.approx(0.032))
    done = surefind(*call, "--yes", "--budget", "1", kb=kb.folder)
    assert done.code == 0, done.err
    assert json.loads(done.out)["rows"][1]["calls"] == 1.0
    stopped = surefind(*call, "--yes", "--budget", "0", "--fresh", kb=kb.folder)
    assert stopped.code == 0, "everything is in the cache, so nothing is spent"


def test_table_has_the_columns_only_where_somebody_asks(kb: Home) -> None:
    ExamStore(kb.folder / ".surefind" / "exams").save(EXAM)
    call = ("bench", "--exam", "e", "-p", "bm25", "-m", "RR@10")
    assert "$ / 1,000" not in surefind(*call, kb=kb.folder).out
    done = surefind(*call, "-p", "bm25 >> asks_model", "--yes", kb=kb.folder)
    assert "$ / 1,000" in done.out


# ---------------------------------------------------------------- the sentence

BM25 = StageTiming(1.0, 1.0, 1.0)
ASKS = Timing(900.0, 900.0, 900.0, 900.0, 900.0, {"bm25": BM25, "llm": StageTiming(899.0, 899.0, 899.0, 2.0, 0.003)})
PLAIN = Timing(1.0, 1.0, 1.0, 1.0, 1.0, {"bm25": BM25})


def test_costs_of_a_row() -> None:
    assert (ASKS.calls, ASKS.cost_per_1k) == (2.0, pytest.approx(3.0))
    assert (PLAIN.calls, PLAIN.cost_per_1k) == (0.0, 0.0)


@each(
    ("difference", "p", "expected"),
    [
        (
            0.1,
            0.01,
            "The language model changes nDCG@10 by +0.100 [+0.050, +0.150] (b against a, the best configuration",
        ),
        (0.1, 0.40, "The language model is not worth its price here: it changes nDCG@10 by +0.100 [+0.050, +0.150] (b"),
        (-0.1, 0.01, "The language model is not worth its price here: it changes nDCG@10 by -0.100 [-0.150, -0.050]"),
    ],
)
def test_sentence(difference: float, p: float, expected: str) -> None:
    low, high = sorted((difference - 0.05, difference + 0.05))
    mirrored = Comparison(0, 1, -difference, -high, -low, p, p)  # the plain one stands first
    said = llm_value(["a", "b"], "nDCG@10", [0.5, 0.5 + difference], [PLAIN, ASKS], [mirrored])
    assert said.startswith(expected)
    assert "$3.00 and 2,000 calls per 1,000 queries and adds 899 ms per query" in said


def test_nothing_is_said_where_nobody_asks_or_all_do() -> None:
    assert llm_value(["a"], "nDCG@10", [0.5], [PLAIN], []) == ""
    assert llm_value(["a"], "nDCG@10", [0.5], [ASKS], []) == ""


def test_nothing_gained_has_no_sign_of_loss() -> None:
    said = llm_value(["a", "b"], "RR@10", [0.5, 0.5], [PLAIN, ASKS], [Comparison(0, 1, 0.0, 0.0, 0.0, 1.0, 1.0)])
    assert "not worth its price here: it changes RR@10 by +0.000 [+0.000, +0.000]" in said
