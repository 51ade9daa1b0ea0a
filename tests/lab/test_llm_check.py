"""`surefind llm check`: a model that can do the tasks is fit, one that cannot is unfit, and is refused."""

from __future__ import annotations

import json
import re
from math import comb
from pathlib import Path

import pytest

from exam_helpers import surefind
from helpers import Home
from llm_server import LLMServer
from llm_steps import BLOCK
from scripted_models import SCRIPTED, scripted
from surefind.base import spec
from surefind.base.errors import SurefindError, UsageError
from surefind.lab.fitness import check
from surefind.lab.fitness.check import TaskResult, lower_bound, tail
from surefind.lab.fitness.kinds import KINDS, Need, cases, facts, lists, needs_of

pytest.importorskip("httpx")
pytestmark = pytest.mark.usefixtures("checked_models")


def capable(prompt: str) -> str:
    """A model that can do every task, because it knows the texts."""
    blocks = BLOCK.findall(prompt)
    query = next((text for label, _, _, text in reversed(blocks) if label == "query"), "")
    fact = next((one for one in facts() if one.question == query), None)
    shown = {int(number): text for label, number, _, text in blocks if label == "passage" and number}
    body = blocks[-1][3] if blocks else ""
    right = [number for number, text in shown.items() if fact and fact.passage in text]
    others = [number for number in shown if number not in right]
    if "most relevant passages" in prompt:
        return json.dumps({"ranking": [*right, *others[::2], *others[1::2]]})
    if "Steps left" in prompt:
        return json.dumps({"evidence": right, "enough": True, "searches": []})
    if "weight from 0 to 1" in prompt:
        (row,) = (row for row in cases()["weigh"] if row["query"] == query)
        return json.dumps({name: 0.9 if row["method"] == name else 0.1 for name in ("bm25", "dense")})
    if "other queries" in prompt:
        word = max(re.findall(r"\w+", query), key=len)
        return json.dumps({"queries": [f"{word} regulation deadline", f"{word} instructions for employees"]})
    if "that answers the query" in prompt and fact:
        return f"{fact.question} {fact.passage}"
    if "breaking points" in prompt:
        return ", ".join(re.findall(r"^(3|6): ", body, re.MULTILINE))
    if "succinct context" in prompt:
        return (
            f"From the rules on {next(row['subject'] for row in cases()['places'] if row['chunk'] == body)} at Norwind."
        )
    if "pairwise relationships" in prompt:
        (names,) = (row["names"] for row in cases()["entities"] if row["text"] == body)
        return json.dumps({"entities": [{"text": name, "type": "x", "relationships": []} for name in names]})
    if "Write the questions" in prompt:
        (fact,) = (one for one in facts() if one.passage == body)
        return json.dumps({"questions": [{"question": f"{fact.title}: which rule?", "answer": fact.answer}]})
    if "behind every sentence" in prompt and fact:
        said = [text.split("\n", 1)[1].split(". ")[0] for text in shown.values() if fact.answer in text]
        return json.dumps({"sentences": [{"text": one, "passages": right} for one in said if right]})
    return "yes"


def use(llm: LLMServer, name: str) -> None:
    if name == "capable":
        llm.reply = capable
    else:
        llm.reply = lambda prompt: scripted(name)(prompt)


def checked(home: Home, llm: LLMServer, name: str) -> dict[str, TaskResult]:
    use(llm, name)
    with home.open() as kb:
        return check.check_model(kb, f"{llm.url}#{name}", list(KINDS))


def test_a_model_that_can_do_the_tasks_is_fit_for_every_step(home: Home, llm: LLMServer) -> None:
    found = checked(home, llm, "capable")
    assert {kind: (one.verdict, one.figure) for kind, one in found.items() if one.verdict != "fit"} == {}
    assert found["order"].bias == 0.0 and found["order"].share == 1.0


@pytest.mark.parametrize("name", SCRIPTED)
def test_a_model_that_cannot_is_unfit_for_every_step(home: Home, llm: LLMServer, name: str) -> None:
    found = checked(home, llm, name)
    assert {kind: one.figure for kind, one in found.items() if one.verdict != "unfit"} == {}


def test_the_quote_covers_the_calls(home: Home, llm: LLMServer) -> None:
    checked(home, llm, "capable")
    assert len(llm.bodies) - 1 <= sum(calls.calls for calls in check.cost(None, KINDS)) <= 150  # one more says hello


def test_the_right_passage_is_at_every_place_equally_often() -> None:
    places = [place for _, _, place in lists()]
    assert {places.count(place) for place in range(6)} == {2}
    assert all(chunks[place].text == fact.passage for fact, chunks, place in lists())


# ---------------------------------------------------------------- verdicts


def test_bounds_are_those_of_the_binomial_distribution() -> None:
    assert tail(5, 12, 1 / 6) == pytest.approx(sum(comb(12, i) * 5 ** (12 - i) for i in range(5, 13)) / 6**12)
    assert lower_bound(12, 12) == pytest.approx(0.05 ** (1 / 12)) and lower_bound(0, 12) == 0
    assert tail(9, 24, lower_bound(9, 24)) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("right", "verdict"), [(0, "unfit"), (7, "unfit"), (8, "doubtful"), (16, "doubtful"), (17, "fit"), (24, "fit")]
)
def test_verdict_of_24_tasks_with_one_chance_in_six(right: int, verdict: str) -> None:
    assert TaskResult("order", right, 24, 1 / 6, 0.5).verdict == verdict


def test_every_stage_that_asks_a_model_has_a_task() -> None:
    steps = ["llm_listwise", "slidegar", "agentic", "conditional(stage=llm_listwise)"]
    assert [need.kind for text in steps for need in needs_of([spec.make("rerank", text)])] == [
        "order", "order", "gather", "order",
    ]  # fmt: skip
    more = [
        ("retrieve", "hyde"), ("retrieve", "multi_query"), ("fuse", "llm_weights"), ("chunk", "llm_segments"),
        ("enrich", "llm_context"), ("extract", "llm"), ("retrieve", "graph_local(entities=llm, llm=x)"),
    ]  # fmt: skip
    found = [needs_of([spec.make(kind, text)]) for kind, text in more]
    assert [one[0].kind for one in found] == ["draft", "rewrite", "weigh", "split", "place", "extract", "extract"]
    assert found[-1][0].model == "x" and needs_of([spec.make("retrieve", "graph_local"), None]) == []


# ---------------------------------------------------------------- stored, shown, refused


def bank(home: Home, llm: LLMServer, more: str = "") -> Home:
    home.write("docs/a.md", "# Cash\n\nThe cash report is due on Monday.\n")
    home.write("docs/b.md", "# Vault\n\nThe vault log is kept for seven years.\n")
    home.configure(f'[llm]\nmodel = "{llm.model}"\nretries = 0\n{more}')
    home.sync("docs")
    return home


STEP = "bm25 >> llm_listwise(top=3, keep=3)"


def test_an_unfit_model_is_refused_with_one_sentence_and_asked_once(home: Home, llm: LLMServer) -> None:
    use(llm, "random")
    bank(home, llm)
    for _ in range(2):
        refused = surefind("bench", "-p", "bm25", "-p", STEP, "--yes", kb=home.folder)
        assert refused.code == 2
        said = refused.err.strip().splitlines()[-1]
        assert re.search(
            rf"{re.escape(llm.model)} is unfit for llm_listwise, since it puts the right passage first in "
            r"\d+ of 24 tasks \(4 by chance\): .*check = false below \[llm\]",
            said,
        )
        asked = len(llm.bodies)
    assert asked == len(llm.bodies) == 1 + 24  # the second run used the stored result


def test_a_setting_uses_an_unfit_model_all_the_same(home: Home, llm: LLMServer) -> None:
    use(llm, "random")
    bank(home, llm, "check = false\n")
    done = surefind("bench", "-p", "bm25", "-p", STEP, "--yes", kb=home.folder)
    assert done.code == 0 and not any("Norwind" in prompt for prompt in llm.prompts)


def test_a_fit_model_is_used_and_the_report_says_so(home: Home, llm: LLMServer) -> None:
    use(llm, "capable")
    bank(home, llm)
    done = surefind("bench", "-p", "bm25", "-p", STEP, "--yes", "--json", kb=home.folder)
    assert done.code == 0
    report = json.loads(done.out)
    assert [(row["step"], row["verdict"]) for row in report["model_checks"]] == [("llm_listwise", "fit")]
    assert f"Model checks: {llm.model} is fit for llm_listwise (24 of 24 right, by chance 4" in " ".join(
        report["details"]
    )


def test_a_sync_refuses_a_model_that_cannot_place_passages(home: Home, llm: LLMServer) -> None:
    use(llm, "echoing")
    home.write("docs/a.md", "# Cash\n\nThe cash report is due on Monday.\n")
    home.configure(
        f'[llm]\nmodel = "{llm.model}"\nretries = 0\n[index]\nchunk = "markdown"\nenrich = ["llm_context"]\n'
    )
    refused = surefind("sync", str(home.folder / "docs"), "--yes", kb=home.folder)
    assert refused.code == 2 and "is unfit for llm_context" in refused.err


def test_a_model_that_cannot_answer_writes_no_questions_for_two_passages(home: Home, llm: LLMServer) -> None:
    # Whether both passages are needed, the model says itself, by answering from one of them.
    home.write("docs/long.md", "# Cash\n\n" + "The cash report of the branch is due on Monday at noon. " * 5)
    bank(home, llm)
    llm.reply = lambda prompt: "no" if "behind every sentence" in prompt else capable(prompt)
    write = ["exam", "write", "--per-family", "1", "--passages", "sections", "--yes"]
    two = surefind(*write, "--family", "sf2h", kb=home.folder)
    assert two.code == 2 and "is unfit for the two-hop questions of exam write (--family sf1h" in two.err
    one = surefind(*write, "--family", "sf1h", kb=home.folder)
    assert "unfit" not in one.err


def test_a_model_that_cannot_be_reached_gets_no_verdict(home: Home, llm: LLMServer) -> None:
    llm.script = ["500"] * 100
    bank(home, llm)
    with home.open() as kb, pytest.raises(SurefindError, match="500"):
        check.require_fit(kb, [Need("llm_listwise", "order", None)])
    with home.open() as kb:
        assert check.results(kb, None) == {}


def test_results_of_other_tasks_do_not_count(home: Home, llm: LLMServer, monkeypatch: pytest.MonkeyPatch) -> None:
    found = checked(home, llm, "capable")
    with home.open() as kb:
        assert check.results(kb, f"{llm.url}#capable") == found
        monkeypatch.setattr(check, "tasks_version", lambda: "other")
        assert check.results(kb, f"{llm.url}#capable") == {}


def test_a_damaged_file_counts_as_none(home: Home, llm: LLMServer) -> None:
    checked(home, llm, "capable")
    path = Path(home.folder) / ".surefind" / check.FILE
    path.write_text(path.read_text(encoding="utf-8").replace("24", "23"), encoding="utf-8")
    with home.open() as kb:
        assert check.results(kb, f"{llm.url}#capable") == {}


def test_the_command_shows_every_step_and_the_doctor_repeats_it(home: Home, llm: LLMServer) -> None:
    use(llm, "random")
    bank(home, llm)
    before = surefind("doctor", kb=home.folder).out
    assert f"{llm.model} was not checked; run: surefind llm check" in before
    done = surefind("llm", "check", "--yes", kb=home.folder)
    assert done.code == 0 and "At most 142 calls" in done.err
    assert re.search(r"unfit +llm_listwise, slidegar +\d+ of 24 right, by chance 4, position bias", done.out)
    assert f"{llm.model}: unfit for llm_listwise, slidegar, agentic" in surefind("doctor", kb=home.folder).out


def test_an_unknown_task_is_refused(home: Home) -> None:
    with pytest.raises(UsageError, match="no task 'odrer'"):
        check.kinds_named(["odrer"])
