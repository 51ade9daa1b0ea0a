"""Answers in the cache that are of no use: a step that is repeated asks again, a benchmark only if it is told to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from exam_helpers import query, surefind
from helpers import WORDS, Home
from llm_server import WRONG, LLMServer
from llm_steps import ordinals, ranking, run
from surefind.base.protocols import Services
from surefind.base.running import collecting
from surefind.base.types import Document
from surefind.engine.chunk.llm_segments import LLMSegments
from surefind.engine.extract.llm import LLM
from surefind.engine.llm.address import LLMSettings
from surefind.engine.services import LocalServices
from surefind.lab.exam.model import Exam, Judgment
from surefind.lab.exam.store import ExamStore

pytest.importorskip("httpx")

DOCUMENT = Document("paper.md", "# Paper\n\n" + " ".join(f"Sentence number {i} speaks of {i // 5}." for i in range(20)))
STEPS = {
    "bm25 >> llm_listwise(reverse=false, top=4, keep=4)": ranking(lambda shown: [3, 4, 1, 2]),
    "bm25 >> slidegar(reverse=false, top=4, window=3, step=1)": ranking(lambda shown: sorted(shown, reverse=True)),
    "bm25 >> agentic(reverse=false, steps=1)": lambda prompt: json.dumps(
        {"evidence": [2], "enough": True, "searches": []}
    ),
    "multi_query(retriever=bm25)": lambda prompt: json.dumps({"queries": ["petty cash safe"]}),
    "hyde(retriever=bm25)": lambda prompt: "Petty cash is in the safe.",
    "bm25 + tfidf >> llm_weights(reverse=false)": lambda prompt: json.dumps({"bm25": 1.0, "tfidf": 0.0}),
}


def services(llm: LLMServer, folder: Path) -> Services:
    """As a new run of the program has them."""
    return LocalServices(folder, llm=LLMSettings(model=llm.model, retries=0))


@pytest.mark.parametrize("text", STEPS)
def test_a_search_that_is_repeated_asks_again_and_keeps_the_better_answer(
    llm: LLMServer, tmp_path: Path, text: str
) -> None:
    llm.reply = lambda prompt: "<think>Hm." if "hyde" in text else WRONG
    useless = run(text, services(llm, tmp_path))
    paid = len(llm.bodies)
    llm.reply = STEPS[text]
    again = run(text, services(llm, tmp_path))
    asked = len(llm.bodies) - paid
    assert asked > 0
    expected = run(text, services(llm, tmp_path / "nothing is here yet"))
    assert ordinals(again) == ordinals(expected) and ordinals(again) != ordinals(useless)
    assert not any("fell back" in entry.note or "kept" in entry.note for entry in again.trace)
    before = len(llm.bodies)
    assert ordinals(run(text, services(llm, tmp_path))) == ordinals(expected)
    assert len(llm.bodies) == before


def test_within_a_run_a_useless_answer_is_not_asked_for_twice(llm: LLMServer, tmp_path: Path) -> None:
    llm.say(WRONG)
    given = services(llm, tmp_path)
    for _ in range(3):
        run("bm25 >> llm_listwise(reverse=false, top=4, keep=4)", given)
    assert len(llm.bodies) == 1
    run("bm25 >> llm_listwise(reverse=false, top=4, keep=4)", services(llm, tmp_path))
    assert len(llm.bodies) == 2


def test_a_good_answer_beside_a_useless_one_is_not_paid_for_again(llm: LLMServer, tmp_path: Path) -> None:
    text, queries = "bm25 >> llm_listwise(reverse=false, top=4, keep=4)", ["cash", "vault log", "two people", "safe"]
    good = ranking(lambda shown: sorted(shown, reverse=True))
    llm.reply = lambda prompt: WRONG if "two people\n" in prompt[prompt.index("<query") :][:60] else good(prompt)
    run(text, services(llm, tmp_path), queries)
    assert len(llm.bodies) == 4
    llm.reply = good
    run(text, services(llm, tmp_path), queries)
    assert len(llm.bodies) == 5


def test_a_document_that_is_cut_again_asks_again(llm: LLMServer, tmp_path: Path) -> None:
    """Each of three tries is another prompt, so within a run none is answered by the one before."""
    stage = LLMSegments(words=30)
    llm.say("99")
    plain = stage.chunk(DOCUMENT, services(llm, tmp_path))
    assert len(llm.bodies) == 3
    llm.say("5, 10, 15")
    cut = stage.chunk(DOCUMENT, services(llm, tmp_path))
    assert (len(cut), len(llm.bodies)) == (4, 4)
    assert [chunk.start for chunk in cut] != [chunk.start for chunk in plain]


def test_entities_that_were_no_list_are_asked_for_again(llm: LLMServer, tmp_path: Path) -> None:
    llm.say(WRONG)
    texts = ["The vault of Alder Row."]
    LLM().extract(texts, services(llm, tmp_path))
    llm.say(json.dumps({"entities": [{"text": "Alder Row", "type": "place", "relationships": []}]}))
    with collecting() as collected:
        (found,) = LLM().extract(texts, services(llm, tmp_path))
    assert collected.without == 0
    assert [mention.name for mention in found.mentions] == ["Alder Row"]


@pytest.fixture
def home(tmp_path: Path, llm: LLMServer) -> Home:
    made = Home(tmp_path / "kb", f'{WORDS}\n[llm]\nmodel = "{llm.model}"\nretries = 0\n')
    for name, text in {"alpha": "The cash report.", "beta": "Cash is counted.", "gamma": "A cash drawer."}.items():
        made.write(f"docs/{name}.md", text)
    made.sync("docs")
    asked = [query("q1", "cash", Judgment("gamma.md")), query("q2", "cash report", Judgment("gamma.md"))]
    ExamStore(made.folder / ".surefind" / "exams").save(Exam("e", tuple(asked)))
    return made


def bench(home: Home, *more: str) -> dict[str, Any]:
    step = "bm25 >> llm_listwise(reverse=false, top=3, keep=3)"
    ran = surefind("bench", "--exam", "e", "-p", "bm25", "-p", step, "--yes", "--json", *more, kb=home.folder)
    assert ran.code == 0, ran.err
    report: dict[str, Any] = ran.json
    return report


def test_a_benchmark_repeated_is_free_and_the_same_until_it_is_told_to_ask_again(home: Home, llm: LLMServer) -> None:
    good = ranking(lambda shown: sorted(shown, key=lambda n: "drawer" not in shown[n]))
    llm.reply = lambda prompt: WRONG if "cash report\n" in prompt[prompt.index("<query") :][:60] else good(prompt)
    first = bench(home)
    assert (len(first["problems"]), len(llm.bodies)) == (1, 2)
    llm.reply = good
    second = bench(home)
    assert [row["scores"] for row in second["rows"]] == [row["scores"] for row in first["rows"]]
    assert (second["problems"], len(llm.bodies)) == (first["problems"], 2)
    third = bench(home, "--ask-again")
    assert (third["problems"], len(llm.bodies)) == ([], 3)
    assert bench(home)["problems"] == [] and len(llm.bodies) == 3
