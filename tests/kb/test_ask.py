"""Answers: every sentence has a citation that says it, with a language model and without one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from cases import each
from exam_helpers import surefind
from helpers import Home
from http_helpers import SETTINGS
from llm_server import LLMServer
from surefind.base.access import Access
from surefind.base.errors import MissingPartError, UsageError
from surefind.base.types import Chunk, Hit
from surefind.engine.search.quoting import quotes
from surefind.engine.store.backend import Passage
from surefind.kb.answer.answering import answer, steps
from surefind.kb.answer.values import NOT_HERE, WRITES, Answer, Cited
from surefind.kb.answer.written import supported

PUBLIC = Access.public()


@pytest.fixture
def bank(tmp_path: Path, llm: LLMServer) -> Iterator[Home]:
    home = Home(tmp_path, SETTINGS + f'\n[llm]\nmodel = "{llm.model}"\n')
    home.write("docs/wires.md", "# Wires\n\nThe cutoff of domestic wires is 3 pm. Fees are 22 dollars.")
    home.write("docs/cards.md", "# Cards\n\nA lost card is blocked by calling extension 4270.")
    home.write("docs/pay.md", "---\nacl: [hr]\n---\n# Pay\n\nThe cutoff of wires for salaries is hushword.")
    home.sync("docs")
    yield home


def _says(*sentences: tuple[str, list[int]]) -> str:
    return json.dumps({"sentences": [{"text": text, "passages": numbers} for text, numbers in sentences]})


def test_a_sentence_that_its_passage_says_is_kept(bank: Home, llm: LLMServer) -> None:
    llm.say(_says(("The cutoff of domestic wires is 3 pm.", [1])))
    with bank.open() as kb:
        found = answer(kb, "When is the cutoff of domestic wires?", PUBLIC)
    said = "The cutoff of domestic wires is 3 pm. [1]"
    assert found.answered and [sentence.cited_text for sentence in found.written] == [said]
    assert found.text == f"The cutoff of domestic wires is 3 pm. Fees are 22 dollars. [1]\n\n{WRITES} {said}"
    assert [hit.document for hit in found.cited] == ["wires.md"] and found.model and not found.dropped


@pytest.mark.parametrize(
    ("sentence", "numbers"),
    [
        ("The cutoff of domestic wires is 5 pm.", [1]),
        ("The cutoff of domestic wires is 3 pm.", []),
        ("The cutoff of domestic wires is 3 pm.", [99]),
        ("The cutoff of domestic wires is 3 pm.", [0]),
        ("Napoleon was born on an island in the sea.", [1]),
        ("Ask your manager about everything else first.", [1, 2]),
        ("", [1]),
    ],
)
def test_a_sentence_that_no_passage_says_is_left_out(
    bank: Home, llm: LLMServer, sentence: str, numbers: list[int]
) -> None:
    llm.say(_says((sentence, numbers)))
    with bank.open() as kb:
        found = answer(kb, "When is the cutoff of domestic wires?", PUBLIC)
    assert not found.model and "nothing that these passages say" in found.note and "3 pm" in found.text
    assert found.dropped == ((sentence,) if sentence else ())


def test_the_quote_comes_before_the_model_is_asked(bank: Home, llm: LLMServer) -> None:
    llm.say(_says(("Fees of wires are 22 dollars.", [1])))
    with bank.open() as kb:
        came = steps(kb, "When is the cutoff of domestic wires?", PUBLIC)
        assert next(came).kind == "search"
        quote = next(came).value
        assert isinstance(quote, Cited) and quote.quoted and not llm.prompts
        written, last = came
    assert isinstance(written.value, Cited) and not written.value.quoted and llm.prompts
    assert isinstance(last.value, Answer) and last.value.sentences == (quote, written.value)


def test_the_model_may_say_that_it_is_not_here(bank: Home, llm: LLMServer) -> None:
    llm.say(_says())
    with bank.open() as kb:
        found = answer(kb, "When is the cutoff of domestic wires?", PUBLIC)
    assert not found.model and found.note and "3 pm" in found.text  # the search is sure, so it is quoted


def test_low_confidence_asks_no_model(bank: Home, llm: LLMServer) -> None:
    with bank.open() as kb:
        found = answer(kb, "cutoff", PUBLIC, min_confidence=1.0)
        assert found.text == NOT_HERE and not llm.prompts
        assert answer(kb, "zzzxqy", PUBLIC).text == NOT_HERE and not llm.prompts


def test_the_model_sees_only_what_the_caller_may_read(bank: Home, llm: LLMServer) -> None:
    llm.say(_says(("The cutoff of wires for salaries is hushword.", [1])))
    with bank.open() as kb:
        found = answer(kb, "cutoff of wires for salaries", PUBLIC)
        assert not found.model and found.dropped and "hushword" not in found.text
        assert "hushword" not in "".join(llm.prompts)
        llm.say(_says(("The cutoff of wires for salaries is hushword.", [1, 2])))
        assert answer(kb, "cutoff of wires for the salaries", Access.of("hr")).answered


@pytest.mark.parametrize("way", ["500", "garbage", "empty", "malformed", "drop"])
def test_a_model_that_fails_leaves_quotes(bank: Home, llm: LLMServer, way: str) -> None:
    llm.script = [way] * 20
    with bank.open() as kb:
        found = answer(kb, "When is the cutoff of domestic wires?", PUBLIC)
    assert found.note and not found.model
    quote = found.sentences[0]
    assert quote.mark and quote.text[slice(*quote.mark)] == "The cutoff of domestic wires is 3 pm."


def test_without_a_model_the_answer_quotes(tmp_path: Path) -> None:
    home = Home(tmp_path, SETTINGS)
    home.write("docs/wires.md", "# Wires\n\nWires are sent daily. The cutoff of domestic wires is 3 pm.")
    home.sync("docs")
    with home.open() as kb:
        found = answer(kb, "When is the cutoff of domestic wires?", PUBLIC)
    assert found.text == "Wires are sent daily. The cutoff of domestic wires is 3 pm. [1]" and not found.note


@each("start", [0, 900])
def test_the_rest_of_a_sentence_is_not_quoted(start: int) -> None:
    text = "renewal of a wire by re-filing. The desk answers questions about renewals of wires on ext. 4270."
    text += "\n\nWires are renewed at the desk."
    passage = Passage(Chunk("d", start, start + len(text), text), "", {}, "", None)
    (made,) = quotes("How is a wire renewed?", [passage], None)
    assert made.text.startswith("renewal") is (start == 0)


def test_a_spent_budget_leaves_quotes(bank: Home, llm: LLMServer) -> None:
    bank.configure(
        SETTINGS + f'\n[llm]\nmodel = "{llm.model}"\nbudget = 0.000001\n[llm.prices]\n"{llm.model}" = [9, 9]\n'
    )
    with bank.open() as kb:
        found = answer(kb, "When is the cutoff of domestic wires?", PUBLIC)
    assert "budget" in found.note and found.answered and not llm.prompts


def test_a_wrong_model_is_an_error(bank: Home) -> None:
    with bank.open() as kb, pytest.raises((UsageError, MissingPartError)):
        answer(kb, "cutoff", PUBLIC, model="nosuch:model")


def test_steps_come_in_order(bank: Home, llm: LLMServer) -> None:
    llm.say(_says(("The cutoff of domestic wires is 3 pm.", [1]), ("Fees are 22 dollars.", [1])))
    with bank.open() as kb:
        found = list(steps(kb, "What are cutoff and fees of domestic wires?", PUBLIC))
    assert [step.kind for step in found] == ["search", "sentence", "sentence", "sentence", "end"]
    assert isinstance(found[-1].value, Answer)


def test_the_command_line_answers(bank: Home, llm: LLMServer) -> None:
    llm.say(_says(("The cutoff of domestic wires is 3 pm.", [1])))
    shown = surefind("ask", "When", "is", "the", "cutoff", "of", "domestic", "wires?", kb=bank.folder)
    assert "3 pm. [1]" in shown.out and "wires.md:1-3" in shown.out and shown.code == 0
    quoted = surefind("ask", "cutoff", "--quote", "--json", kb=bank.folder).json
    assert quoted["answered"] and quoted["model"] is None and quoted["citations"]
    nothing = surefind("ask", "zzzxqy", kb=bank.folder)
    assert nothing.code == 1 and NOT_HERE in nothing.out
    assert surefind("ask", "", kb=bank.folder).code == 2


def test_http_answers_at_once_and_bit_by_bit(bank: Home, llm: LLMServer) -> None:
    import asyncio

    from surefind.doors.server import create_app
    from surefind.kb.settings.serve import ServeSettings

    llm.say(_says(("The cutoff of domestic wires is 3 pm.", [1])))

    async def go() -> tuple[httpx.Response, httpx.Response, httpx.Response]:
        with bank.open() as kb:
            transport = httpx.ASGITransport(create_app(kb, ServeSettings()))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                asked = {"query": "When is the cutoff of domestic wires?"}
                return (
                    await client.post("/v1/ask", json=asked),
                    await client.post("/v1/ask", json={**asked, "stream": True}),
                    await client.post("/v1/ask", json={"query": "x" * 3000}),
                )

    whole, streamed, wrong = asyncio.run(go())
    assert (
        whole.json()["answer"].endswith(f"{WRITES} The cutoff of domestic wires is 3 pm. [1]")
        and "hushword" not in whole.text
    )
    events = [line.removeprefix("event: ") for line in streamed.text.splitlines() if line.startswith("event: ")]
    assert events == ["search", "sentence", "sentence", "end"] and wrong.status_code == 400


def _hit(text: str, title: str = "") -> Hit:
    return Hit(1, 1.0, "d", "0", title, (), 0, len(text), text, {}, {})


@each(
    ("sentence", "text", "said"),
    [
        ("The fee is 22 dollars.", "Fees are 22 dollars for members.", True),
        ("The fee is 23 dollars.", "Fees are 22 dollars for members.", False),
        ("See AML-204 for details.", "AML-204 has the details.", True),
        ("See AML-205 for details.", "AML-204 has the details.", False),
        ("", "anything", False),
        ("The", "The", False),
    ],
)
def test_support_is_a_matter_of_words_and_numbers(sentence: str, text: str, said: bool) -> None:
    assert supported(sentence, [_hit(text)]) is said
    assert not supported(sentence, [])
