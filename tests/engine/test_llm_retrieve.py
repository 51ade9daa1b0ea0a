"""`hyde`, `multi_query` and `llm_weights`: what a model adds to retrieval and fusion, and what happens without it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from cases import each
from llm_server import HANGS, LLMServer
from llm_steps import BROKEN, CHUNKS, TEXTS, ordinals, run, services_for
from surefind.base import spec
from surefind.base.errors import SpecError, UsageError
from surefind.base.types import Query
from surefind.engine.retrieve.multi_query import read_rewrites
from surefind.engine.services import LocalServices
from surefind.testing import check_retriever
from toy_stages import ToyEmbedder

pytestmark = pytest.mark.usefixtures("toys")

DENSE = "dense(model=toy)"
HYDE = f"hyde(retriever={DENSE})"
MULTI = f"multi_query(retriever={DENSE}, rewrites=2)"


def vectors(*texts: str) -> np.ndarray:
    return ToyEmbedder().embed(texts)


def cosines(point: np.ndarray) -> np.ndarray:
    return vectors(*TEXTS) @ (point / np.linalg.norm(point))


# ---------------------------------------------------------------- hyde


def test_point_is_the_mean_of_question_and_drafts(llm: LLMServer) -> None:
    llm.reply = lambda prompt: TEXTS[7] if "Draft 2" in prompt else TEXTS[6]
    found = run(f"hyde(retriever={DENSE}, drafts=2)", services_for(llm), ["petty cash"])
    expected = cosines(vectors("petty cash", TEXTS[6], TEXTS[7]).mean(axis=0))
    assert ordinals(found) == np.argsort(-expected, kind="stable").tolist()
    assert found.rankings.row(0)[1].tolist() == pytest.approx(np.sort(expected)[::-1].tolist(), abs=1e-4)
    assert found.trace[0].calls == 2


def test_the_question_may_be_left_out(llm: LLMServer) -> None:
    llm.say(TEXTS[6])
    found = run(f"hyde(retriever={DENSE}, query=false)", services_for(llm), ["petty cash"])
    assert ordinals(found)[0] == 6
    assert found.rankings.row(0)[1][0] == pytest.approx(1.0, abs=1e-4)


def test_drafts_add_words_to_a_lexical_search(llm: LLMServer) -> None:
    llm.say("vault log seven years, the safe")
    assert ordinals(run("hyde(retriever=bm25)", services_for(llm), ["petty"]))[0] == 7
    assert ordinals(run("hyde(retriever=bm25, query=false)", services_for(llm), ["petty"])) == [7, 6, 4, 5]


@pytest.mark.parametrize("text", ["hyde(retriever=bm25)", "multi_query(retriever=bm25)"])
def test_words_that_find_nothing_that_the_question_finds_are_not_used(llm: LLMServer, text: str) -> None:
    llm.say('{"queries": ["vault log seven years"]}' if "multi" in text else "vault log seven years")
    found = run(text, services_for(llm), ["petty"])
    assert ordinals(found) == [4] and "nothing that the question finds" in found.trace[0].note


def test_candidates_are_scored_by_the_drafted_point_too(llm: LLMServer) -> None:
    """`convex(missing=score)` asks each retriever for what it did not return."""
    llm.say(TEXTS[7])
    found = run(f"bm25 + {HYDE} @2 >> convex(alpha=1.0, missing=score)", services_for(llm), ["petty cash"], k=2)
    expected = cosines(vectors("petty cash", TEXTS[7]).mean(axis=0))
    assert ordinals(found)[0] == int(expected.argmax())
    assert len(llm.bodies) == 1  # the drafts of the search serve the scoring


# ---------------------------------------------------------------- multi_query


def test_rankings_of_all_wordings_are_fused(llm: LLMServer) -> None:
    llm.say('{"queries": ["vault log", "two people"]}')
    found = run(MULTI, services_for(llm), ["petty cash"])
    services = services_for(llm)
    every = [ordinals(run("dense(model=toy)", services, [q])) for q in ("petty cash", "vault log", "two people")]
    expected = {o: sum(1 / (60 + 1 + order.index(o)) for order in every) for o in range(len(TEXTS))}
    scores = dict(zip(ordinals(found), found.rankings.row(0)[1].tolist(), strict=True))
    assert scores == pytest.approx(expected, abs=1e-6)
    assert found.trace[0].calls == 1


@each(
    ("reply", "found"),
    [
        ('{"queries": ["a", "b", "c"]}', ["a", "b"]),
        ('{"queries": ["a", "A", " a ", "Cash?", "b"]}', ["a", "b"]),
        ('{"queries": ["", 3, null, "b"]}', ["b"]),
        (json.dumps({"queries": ["x" * 501]}), []),
        ('{"queries": "a"}', []),
        ("[]", []),
        ('Sure!\n```json\n{"queries": ["a",]}\n```', ["a"]),
    ],
)
def test_rewrites_are_checked(reply: str, found: list[str]) -> None:
    assert read_rewrites(reply, "cash?", 2) == found


# ---------------------------------------------------------------- both


def test_contract_of_retrievers(llm: LLMServer, tmp_path: Path) -> None:
    llm.reply = lambda prompt: "The vault log is kept." if "safe" in prompt else "Cash, in a drawer."
    queries = [Query("cash report"), Query("safe people"), Query("vault"), Query("log kept")]
    check_retriever(spec.make("retrieve", HYDE), CHUNKS, queries, services_for(llm), tmp_path)


def test_a_model_that_is_not_chosen_is_said_and_not_passed_over() -> None:
    with pytest.raises(UsageError, match="No language model is chosen"):
        run(HYDE, LocalServices())


@pytest.mark.parametrize("stage", [MULTI, f"multi_query(retriever={HYDE})", "multi_query(retriever=bm25)"])
def test_fused_rewrites_depend_on_the_query_alone(llm: LLMServer, stage: str) -> None:
    """Not on the batch, nor on how many hits are wanted; and a mask holds for every wording. (Reciprocal ranks do
    change under a mask, so the contract's rule that scores do not is for other retrievers.)"""

    def reply(prompt: str) -> str:
        several = ["vault log"] if "cash" in prompt else ["two people", "seven years"]
        return json.dumps({"queries": several}) if "other queries" in prompt else "The vault log is kept."

    llm.reply = reply
    services, questions = services_for(llm), ["cash report", "safe people", "vault"]
    together = run(stage, services, questions)
    allow = np.array([i % 2 == 1 for i in range(len(TEXTS))])
    for i, question in enumerate(questions):
        assert ordinals(run(stage, services, [question])) == ordinals(together, i)
        assert ordinals(run(f"{stage} @2", services, [question], k=2)) == ordinals(together, i)[:2]
        assert all(o % 2 == 1 for o in ordinals(run(stage, services, [question], allow=allow)))


@pytest.mark.parametrize("stage", [HYDE, MULTI])
@pytest.mark.parametrize("act", BROKEN)
def test_every_misbehaviour_ends_in_the_plain_search_within_the_timeout(llm: LLMServer, stage: str, act: str) -> None:
    if stage == HYDE and act == "garbage":
        pytest.skip("prose is what a draft is")
    llm.script = [act] * 20
    started = time.monotonic()
    found = run(stage, services_for(llm, timeout=0.3, total_timeout=0.5))
    assert time.monotonic() - started < HANGS / 2
    assert ordinals(found) == ordinals(run(DENSE, LocalServices()))
    assert "searched the question" in found.trace[0].note


def test_a_spent_budget_ends_in_the_plain_search(llm: LLMServer) -> None:
    services = services_for(llm, budget=0.0, prices={llm.model: (1.0, 1.0)})
    found = run(HYDE, services)
    assert ordinals(found) == ordinals(run(DENSE, LocalServices()))
    assert "budget of $0.00" in found.trace[0].note
    assert llm.bodies == []


def test_wrapping_retrievers_share_the_inner_index() -> None:
    inner = spec.make("retrieve", DENSE)
    for stage in (HYDE, MULTI):
        assert spec.make("retrieve", stage).index_spec(LocalServices()) == inner.index_spec(LocalServices())
        assert spec.make("retrieve", stage).signal == "dense"


@pytest.mark.parametrize(
    ("reply", "made"),
    [
        ("```\nThe vault log is kept.\n```", "The vault log is kept."),
        ("<passage 1 0123456789ab>\nThe vault log is kept.\n</passage 1 0123456789ab>", "The vault log is kept."),
        ("<query 0123456789ab>\npetty cash\n</query 0123456789ab>", ""),
        ("Petty cash?", ""),
    ],
)
def test_a_copied_fence_is_no_part_of_a_draft_and_the_question_is_none(llm: LLMServer, reply: str, made: str) -> None:
    llm.say(reply)
    stage = spec.make("retrieve", HYDE)
    assert stage.drafted([Query("petty cash")], services_for(llm)) == [[made] if made else []]


def test_rewrites_with_the_words_of_the_question_are_none() -> None:
    reply = json.dumps({"queries": ["Petty cash?", "petty  cash", "cash box", "Cash box.", "small change"]})
    assert read_rewrites(reply, "petty cash", 3) == ["cash box", "small change"]


@each("wrong", ["hyde(drafts=0)", "hyde(retriever=nonesuch)", "multi_query(rewrites=11)"])
def test_impossible_parameters_are_refused(wrong: str) -> None:
    with pytest.raises(SpecError):
        spec.make("retrieve", wrong)


# ---------------------------------------------------------------- llm_weights

WEIGHTED = f"bm25 + {DENSE} >> llm_weights(reverse=false)"


def test_weights_of_the_model_are_used(llm: LLMServer) -> None:
    llm.say('{"bm25": 0.0, "dense": 1.0}')
    found = run(WEIGHTED, services_for(llm), ["vault"])
    assert ordinals(found) == ordinals(
        run(f"bm25 + {DENSE} >> weighted(weights=[0.0, 1.0])", LocalServices(), ["vault"])
    )
    assert found.trace[-1].note == "weights bm25 0.00, dense 1.00"
    llm.say('{"bm25": 0.75, "dense": 0.25}')
    found = run(WEIGHTED, services_for(llm), ["vault"])
    same = run(f"bm25 + {DENSE} >> weighted(weights=[0.75, 0.25])", LocalServices(), ["vault"])
    assert found.rankings.row(0)[1].tolist() == pytest.approx(same.rankings.row(0)[1].tolist())


def test_each_query_has_weights_of_its_own(llm: LLMServer) -> None:
    llm.reply = lambda prompt: '{"bm25": 1, "dense": 0}' if "\nvault\n" in prompt else '{"bm25": 0, "dense": 1}'
    found = run(WEIGHTED, services_for(llm), ["vault", "cash"])
    lexical = run(f"bm25 + {DENSE} >> weighted(weights=[1, 0])", LocalServices(), ["vault", "cash"])
    dense = run(f"bm25 + {DENSE} >> weighted(weights=[0, 1])", LocalServices(), ["vault", "cash"])
    assert [ordinals(found, i) for i in (0, 1)] == [ordinals(lexical, 0), ordinals(dense, 1)]


@pytest.mark.parametrize(("mode", "informed"), [("query", False), ("informed", True)])
def test_informed_model_sees_the_scores(llm: LLMServer, mode: str, informed: bool) -> None:
    llm.say('{"bm25": 0.5, "dense": 0.5}')
    run(f"bm25 + {DENSE} >> llm_weights(mode={mode}, reverse=false)", services_for(llm))
    assert ("highest scores" in llm.prompts[0]) is informed
    assert "- bm25: lexical search" in llm.prompts[0] and '{"bm25": …, "dense": …}' in llm.prompts[0]


@pytest.mark.parametrize("act", BROKEN)
def test_every_misbehaviour_ends_in_the_rules(llm: LLMServer, act: str) -> None:
    llm.script = [act] * 20
    started = time.monotonic()
    found = run(WEIGHTED, services_for(llm, timeout=0.3, total_timeout=0.5), ["fee of 7"])
    assert time.monotonic() - started < HANGS / 2
    rules = run(f"bm25 + {DENSE} >> weighted(weights=[0.55, 0.30])", LocalServices(), ["fee of 7"])
    assert ordinals(found) == ordinals(rules)
    assert found.trace[-1].note.startswith("weights by rule: ")


def test_wrong_weights_end_in_the_rules(llm: LLMServer) -> None:
    llm.say('{"bm25": 24.284, "dense": 0.544}')
    found = run(WEIGHTED, services_for(llm), ["why"])
    wrong = "the weight of bm25 is 24.284, not a number from 0 to 1"
    assert found.trace[-1].note == f"weights by rule: {wrong}; weights bm25 0.35, dense 0.65"


def test_weights_move_half_as_far_as_both_readings_move_them(llm: LLMServer, toys: None) -> None:
    llm.reply = lambda prompt: json.dumps(
        {"bm25": 0.1, "dense": 0.9} if prompt.index("- bm25:") < prompt.index("- dense:") else {"bm25": 0, "dense": 1}
    )
    found = run(f"bm25 + {DENSE} >> llm_weights", services_for(llm), ["who signs for a vault"])
    assert found.trace[-1].note == "weights bm25 0.30, dense 0.70"  # from 0.5 half of the way to 0.9
    assert len(llm.bodies) == 2


@pytest.mark.parametrize("second", ['{"bm25": 1.0, "dense": 0.0}', "no idea"])
def test_weights_that_contradict_each_other_or_are_missing_are_even(llm: LLMServer, toys: None, second: str) -> None:
    llm.reply = lambda prompt: (
        '{"bm25": 0.0, "dense": 1.0}' if prompt.index("- bm25:") < prompt.index("- dense:") else second
    )
    found = run(f"bm25 + {DENSE} >> llm_weights", services_for(llm), ["who signs for a vault"])
    assert found.trace[-1].note.endswith("weights bm25 0.50, dense 0.50")
