"""Pairs that a language model writes, over a real loopback server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exam_helpers import query
from llm_server import LLMServer
from surefind.base.errors import SpecError, SurefindError
from surefind.base.protocols import Services
from surefind.base.types import Chunk
from surefind.engine.llm.address import LLMSettings
from surefind.engine.services import LocalServices
from surefind.lab.exam.model import Judgment
from surefind.lab.train.job import TrainingJob
from surefind.lab.train.pairs import PassageSet, calls_for, from_llm, passages_to_ask
from test_train_pairs import CHUNKS, OTHER, PLACES

pytest.importorskip("httpx")

LONG = [Chunk(c.document, c.start, c.end, c.text + " " + "More is said of it here. " * 5, c.headings) for c in CHUNKS]
QUIET = lambda what, done, total: None  # noqa: E731


def shelf(*held: object) -> PassageSet:
    return PassageSet(LONG, held, PLACES)  # type: ignore[arg-type]


def services(llm: LLMServer, folder: Path | None = None) -> Services:
    return LocalServices(folder, llm=LLMSettings(model=llm.model))


def test_questions_stand_with_their_passage(llm: LLMServer) -> None:
    llm.reply = lambda prompt: json.dumps({"questions": ["Who may open the strong room?", "How many must sign it?"]})
    made = from_llm(shelf(), [2], services(llm), "", "questions", QUIET)
    assert [(pair.query, pair.document, pair.source) for pair in made] == [
        ("Who may open the strong room?", "sops/vault.md", "llm"),
        ("How many must sign it?", "sops/vault.md", "llm"),
    ]
    (prompt,) = llm.prompts
    assert OTHER in prompt and "write 3 different questions" in prompt


def test_triplets_bring_their_negative(llm: LLMServer) -> None:
    wrong = "The vault of the old branch was sold and holds paintings now."
    llm.say(json.dumps({"query": "Who may open the strong room?", "negative": wrong}))
    (pair,) = from_llm(shelf(), [2], services(llm), "", "triplets", QUIET)
    assert pair.negative == wrong


@pytest.mark.parametrize(
    "answer",
    [
        "I would rather not.",
        '{"questions": "one"}',
        '{"questions": [1, null, "two words"]}',
        json.dumps({"questions": [OTHER[:40]]}),  # copied from the passage
    ],
)
def test_answers_that_teach_nothing_are_passed_over(llm: LLMServer, answer: str) -> None:
    good = json.dumps({"questions": ["Who may open the strong room?"]})
    llm.reply = lambda prompt: answer if OTHER in prompt else good
    made = from_llm(shelf(), [1, 2], services(llm), "", "questions", QUIET)
    assert {pair.document for pair in made} == {"sops/ctr.md"}


def test_nothing_learnt_at_all_is_an_error(llm: LLMServer) -> None:
    llm.say("no")
    with pytest.raises(SurefindError, match="wrote no usable question"):
        from_llm(shelf(), [1], services(llm), "", "questions", QUIET)


def test_held_out_passages_are_not_shown() -> None:
    held = query("h", "who opens the vault", Judgment("sops/vault.md"))
    assert 2 in passages_to_ask(shelf(), 100, "questions")
    assert 2 not in passages_to_ask(shelf(held), 100, "questions")


def test_as_many_passages_as_pairs_are_wanted() -> None:
    assert len(passages_to_ask(shelf(), 3, "questions")) == 1
    assert len(passages_to_ask(shelf(), 3, "triplets")) == 3
    assert calls_for(shelf(), [1, 2], "m").calls == 2


def test_answers_are_paid_for_once(llm: LLMServer, tmp_path: Path) -> None:
    llm.say(json.dumps({"questions": ["Who may open the strong room?"]}))
    for _ in range(2):
        used = services(llm, tmp_path)
        from_llm(shelf(), [1, 2], used, "", "questions", QUIET)
        used.close()
    assert len(llm.prompts) == 2


def test_job_says_what_a_model_can_write() -> None:
    with pytest.raises(SpecError, match="can write questions or triplets"):
        TrainingJob("encoder", "mine", write="poems")
