"""`llm_context` and `llm_segments`: a model at ingestion, its guard-rails and its fallbacks."""

from __future__ import annotations

import re

import pytest

from helpers import Home
from llm_server import LLMServer
from llm_steps import BLOCK, BROKEN, run, services_for
from surefind.base import spec
from surefind.base.errors import BudgetError, SpecError
from surefind.base.running import collecting
from surefind.base.text.words import count_tokens
from surefind.base.types import Chunk, Document
from surefind.engine.enrich.llm_context import around
from surefind.engine.llm.prices import Price
from surefind.engine.write.layout import Layout
from surefind.testing import DOCUMENTS, check_chunker, check_enricher

SENTENCES = [f"Sentence number {i} speaks of topic {i // 5}." for i in range(20)]
DOCUMENT = Document(
    "paper.md", "# Paper\n\n" + " ".join(SENTENCES[:10]) + "\n\n## Later\n\n" + " ".join(SENTENCES[10:])
)
SEGMENTS = spec.make("chunk", "llm_segments(words=30, base=fixed(tokens=40, overlap=0))")
# 142 words of about 30: τ = 5, so 2 to 8 chunks


def chunks_of(document: Document = DOCUMENT) -> list[Chunk]:
    return Layout.parse("fixed(tokens=40, overlap=0)").cut(document, services=None)


# ---------------------------------------------------------------- llm_segments


def test_chunks_lie_between_the_sentences_that_the_model_names(llm: LLMServer) -> None:
    llm.say("6, 11, 17")
    made = SEGMENTS.chunk(DOCUMENT, services_for(llm))
    firsts = [re.findall(r"Sentence number (\d+)", chunk.text)[0] for chunk in made]
    assert firsts == ["0", "6", "11", "17"]
    assert all(DOCUMENT.text[chunk.start : chunk.end] == chunk.text for chunk in made)
    assert "".join(chunk.text for chunk in made).count("Sentence") == 20
    assert made[-1].headings == ("Paper", "Later")
    assert len(llm.bodies) == 1


def test_prompt_numbers_the_sentences_and_names_the_range(llm: LLMServer) -> None:
    llm.say("6")
    SEGMENTS.chunk(DOCUMENT, services_for(llm))
    (prompt,) = llm.prompts
    (listed,) = [text for label, _, _, text in BLOCK.findall(prompt) if label == "sentences"]
    lines = listed.split("\n")
    assert lines[0] == "0: # Paper Sentence number 0 speaks of topic 0."
    assert [int(line.split(":")[0]) for line in lines] == list(range(20))
    words = sum(len(line.split()) - 1 for line in lines)
    low, high = max(2, round(words / 30) - 3), round(words / 30) + 3
    assert f"identify {low - 1}-{high - 1} optimal" in prompt
    assert f"{len(lines)} total sentences and {words} words" in prompt


def test_a_wrong_answer_is_asked_for_again_with_the_complaint(llm: LLMServer) -> None:
    llm.say("99", "the beginning", "6, 12")
    assert len(SEGMENTS.chunk(DOCUMENT, services_for(llm))) == 3
    assert [re.search(r"Try \d.*", prompt) is not None for prompt in llm.prompts] == [False, True, True]
    assert "99 is not a sentence number" in llm.prompts[1] and "no sentence numbers" in llm.prompts[2]


def test_after_three_tries_the_base_chunker_cuts(llm: LLMServer) -> None:
    llm.say("99")
    with collecting() as collected:
        made = SEGMENTS.chunk(DOCUMENT, services_for(llm))
    assert made == chunks_of()
    assert len(llm.bodies) == 3
    assert collected.text.startswith(
        "paper.md was cut by fixed(tokens=40, overlap=0, unit=tokens): after 3 tries, 99 is not"
    )


@pytest.mark.parametrize("act", BROKEN)
def test_every_misbehaviour_ends_in_the_base_chunker(llm: LLMServer, act: str) -> None:
    llm.script = [act] * 10
    with collecting() as collected:
        made = SEGMENTS.chunk(DOCUMENT, services_for(llm, timeout=0.3, total_timeout=0.5))
    assert made == chunks_of()
    assert "was cut by fixed" in collected.text


def test_a_long_document_is_asked_for_in_parts(llm: LLMServer) -> None:
    llm.say("2, 4")
    chunker = spec.make("chunk", "llm_segments(words=20, part_words=50)")
    made = chunker.chunk(DOCUMENT, services_for(llm))
    assert len(llm.bodies) == 3
    assert len(made) == 9
    assert "".join(chunk.text for chunk in made).count("Sentence") == 20


def test_chunkers_contract_whatever_the_model_says(llm: LLMServer) -> None:
    llm.say("1")
    check_chunker(spec.make("chunk", "llm_segments(tries=1)"), services=services_for(llm))
    llm.say("1, 2, 3, 4, 5, 6")
    check_chunker(spec.make("chunk", "llm_segments(words=10, tries=1)"), services=services_for(llm))


# ---------------------------------------------------------------- llm_context


def test_context_is_what_the_model_says_and_the_text_is_untouched(llm: LLMServer) -> None:
    llm.reply = lambda prompt: f"  About\n{prompt.count('Sentence')} sentences. "
    made = spec.make("enrich", "llm_context").enrich(DOCUMENT, chunks_of(), services_for(llm))
    assert made[0].context == f"About {20 + made[0].text.count('Sentence')} sentences."
    assert [chunk.text for chunk in made] == [chunk.text for chunk in chunks_of()]


def test_all_chunks_of_a_document_share_the_beginning_of_their_prompts(llm: LLMServer) -> None:
    llm.say("Context.")
    spec.make("enrich", "llm_context").enrich(DOCUMENT, chunks_of(), services_for(llm))
    shared = {prompt[: prompt.index("Here is the chunk")] for prompt in llm.prompts}
    assert len(llm.prompts) == len(chunks_of()) > 2
    assert len(shared) == 1 and "<document " in shared.pop()


def test_context_is_cut_to_its_length(llm: LLMServer) -> None:
    llm.reply = lambda prompt: f"{len(llm.bodies)} " + "word " * 1000  # another one for each chunk
    (first, *_) = spec.make("enrich", "llm_context").enrich(DOCUMENT, chunks_of(), services_for(llm))
    assert count_tokens(first.context) == 150


@pytest.mark.parametrize("act", [act for act in BROKEN if act != "garbage"])  # prose is what is asked for
def test_without_an_answer_there_is_no_context(llm: LLMServer, act: str) -> None:
    llm.script = [act] * 20
    with collecting() as collected:
        made = spec.make("enrich", "llm_context").enrich(
            DOCUMENT, chunks_of(), services_for(llm, timeout=0.3, total_timeout=0.5)
        )
    assert made == chunks_of()
    assert "no context in paper.md" in collected.text
    assert len(llm.bodies) == 1


def test_of_a_long_document_the_beginning_and_the_surroundings_are_shown() -> None:
    words = [f"w{i}" for i in range(1000)]
    document = Document("long.md", " ".join(words), "Title")
    start = document.text.index("w700 ")
    text = around(document, Chunk("long.md", start, start + 4, "w700"), 200)
    shown = text.split()
    assert shown[:2] == ["Title", "w0"] and "w99" in shown and "w100" not in shown
    assert "w700" in shown and count_tokens(text) <= 200 + 5
    assert around(document, Chunk("long.md", 0, 2, "w0"), 2000) == f"Title\n\n{document.text}"
    last = Chunk("long.md", len(document.text) - 4, len(document.text), "w999")
    assert "w999" in around(document, last, 200)


def test_enrichers_contract(llm: LLMServer) -> None:
    llm.say("Where it stands.")
    document = DOCUMENTS[-1]
    chunks = Layout.parse("markdown(tokens=20, min_tokens=5)", ["headings"]).cut(document, services=None)
    check_enricher(spec.make("enrich", "llm_context"), document, chunks, services=services_for(llm))


# ---------------------------------------------------------------- at a sync

CONTEXT = """
[index]
chunk = "fixed(tokens=12, overlap=0)"
enrich = ["llm_context(model=\\"{model}\\")"]

[search]
pipeline = "words"

[pipelines.words]
retrieve = ["bm25"]
"""


def test_what_a_model_wrote_is_found_and_an_outage_is_mended_by_the_next_sync(home: Home, llm: LLMServer) -> None:
    home.configure(CONTEXT.format(model=llm.model))
    home.write("docs/a.md", "The drawer is locked at night.")
    home.write("docs/b.md", "The vault has a log of two people.")
    llm.reply = lambda prompt: "About zebras." if "vault" in prompt else "About giraffes."
    llm.script = ["good", "401"]
    first = home.sync("docs")
    (problem,) = first.problems
    assert problem.path == "b.md" and "the next sync tries again" in problem.reason and "401" in problem.reason
    assert home.found("giraffes") == ["a.md"] and home.found("zebras") == []
    asked = len(llm.bodies)
    second = home.sync("docs")
    assert (second.changed, second.problems) == (1, [])
    assert home.found("zebras") == ["b.md"]  # the index is another one, though text and places are the same
    assert len(llm.bodies) == asked + 1
    third = home.sync("docs")
    assert (third.changed, third.unchanged, len(llm.bodies)) == (0, 2, asked + 1)


def test_a_spent_budget_ends_a_sync_and_keeps_what_was_paid_for(home: Home, llm: LLMServer) -> None:
    home.configure(CONTEXT.format(model=llm.model))
    home.write("docs/a.md", "The drawer is locked at night.")
    home.write("docs/b.md", "The vault has a log.")
    llm.say("Context.")
    with home.open() as kb:
        meter = kb.services.llm.meter
        kb.services.llm.chat(llm.model).price = Price(1e6, 0.0)  # a dollar a token
        meter.limit = 900.0  # a prompt of 760 bytes may be 780 tokens, and is 190
        with pytest.raises(BudgetError, match="higher --budget"):
            kb.sync(home.docs)
    paid = len(llm.bodies)
    assert paid == 1
    home.sync("docs")
    assert len(llm.bodies) == 2


# ---------------------------------------------------------------- temperature


@pytest.mark.parametrize("given", ["", "temperature=0.2"])
def test_steps_ask_at_the_temperature_that_is_given(llm: LLMServer, given: str) -> None:
    services = services_for(llm)
    llm.say("5, 10")
    spec.make("chunk", f"llm_segments({given})").chunk(DOCUMENT, services)
    spec.make("enrich", f"llm_context({given})").enrich(DOCUMENT, chunks_of(), services)
    spec.make("extract", f"llm({given})").extract(["Some text."], services)
    run(f"bm25 >> llm_listwise({given})", services)
    run(f"bm25 >> slidegar({given})", services)
    assert len(llm.bodies) > 4
    assert {body["temperature"] for body in llm.bodies} == {0.2 if given else 0.0}


def test_temperature_that_no_service_takes_is_refused() -> None:
    with pytest.raises(SpecError, match="temperature must be from 0 to 2"):
        spec.make("enrich", "llm_context(temperature=3)")
