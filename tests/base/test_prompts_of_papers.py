"""The prompts of the papers word for word (`prompt=paper`): what is sent, without the fences and their rule."""

from __future__ import annotations

import json
import re

import pytest

from llm_server import LLMServer
from llm_steps import ordinals, passages, run, services_for, upside_down
from surefind.base.prompts.fence import RULE
from surefind.base.types import Chunk, Document
from surefind.engine.chunk.llm_segments import LLMSegments
from surefind.engine.enrich.llm_context import LLMContext
from surefind.engine.llm.listwise import NO_ORDER, ListPrompt

MARK = re.compile(r"(</?\w+(?: \d+)?) [0-9a-f]{12}>")
CONTEXT = """<document>
The cash report

It is due on Monday.
</document>
Here is the chunk we want to situate within the whole document:
<chunk>
It is due on Monday.
</chunk>
Please give a short succinct context to situate this chunk within the overall document for the purposes of improving \
search retrieval of the chunk. Answer only with the succinct context and nothing else."""
SEGMENTS = """You are analyzing an academic research paper to identify optimal breaking points for text chunking. \
The document has 3 total sentences and 12 words. Here are the sentences:

<sentences>
0: Cash is counted twice.
1: The vault is locked.
2: Nobody enters at night.
</sentences>

Your task is to identify 1-2 optimal breaking points (sentence numbers) where the document naturally \
transitions between:
- Different topics or concepts
- Section boundaries
- Logical flow breaks
- Conceptual shifts
- Changes in focus or subject matter

Return ONLY the sentence numbers as a comma-separated list (e.g., "8, 15, 23, 31"). Do not include explanations or any \
other text."""
LISTWISE = """Given the following query and retrieved chunks (ordered by highest score to lowest), rank the chunks by \
their relevance to answering the query.

Query: <query>
cash
</query>

Chunks: PASSAGES

Please analyze each chunk and return ONLY a JSON array of document numbers ranked from most relevant to least relevant.

Example format: [1, 5, 3, 7, 2, ...]

Return ONLY the JSON array, nothing else."""


def _sent(llm: LLMServer) -> tuple[str, str]:
    """The system message and the question of the first call, without the marks of fences."""
    (system, user) = llm.bodies[0]["messages"]
    return system["content"], MARK.sub(r"\1>", user["content"])


def test_context_is_asked_for_in_the_words_of_the_thesis(llm: LLMServer) -> None:
    llm.say("It is about cash.")
    text = "It is due on Monday."
    document = Document("a.md", text, "The cash report")
    stage = LLMContext(prompt="paper", document_tokens=None, max_tokens=1000, context_tokens=1000)
    (made,) = stage.enrich(document, [Chunk("a.md", 0, len(text), text)], services_for(llm))
    assert _sent(llm) == (RULE, CONTEXT) and made.context == "It is about cash."
    assert llm.bodies[0]["max_tokens"] == 1000


def test_a_long_context_is_kept_up_to_the_limit(llm: LLMServer) -> None:
    llm.say("word " * 400)
    document = Document("a.md", "It is due.", "")
    (chunk,) = (Chunk("a.md", 0, 10, "It is due."),)
    for limits, words in (({}, 150), ({"max_tokens": 1000, "context_tokens": 1000}, 400)):
        (made,) = LLMContext(**limits).enrich(document, [chunk], services_for(llm))  # type: ignore[arg-type]
        assert len(made.context.split()) == words


def test_the_whole_document_is_shown_if_no_limit_is_set(llm: LLMServer) -> None:
    llm.say("It is long.")
    document = Document("a.md", "alpha " * 9000 + "omega", "")
    (chunk,) = (Chunk("a.md", 0, 5, "alpha"),)
    for limit, count in ((8000, 8000), (None, 9000)):
        LLMContext(document_tokens=limit).enrich(document, [chunk], services_for(llm))
        shown = llm.bodies[-1]["messages"][-1]["content"]
        assert shown.count("alpha") == count + 1  # and the chunk


def test_segments_are_asked_for_in_the_words_of_the_thesis(llm: LLMServer) -> None:
    llm.say("1")
    document = Document("a.md", "Cash is counted twice. The vault is locked. Nobody enters at night.", "")
    stage = LLMSegments(prompt="paper", part_words=None, max_tokens=1000, words=10)
    made = stage.chunk(document, services_for(llm))
    assert len(made) == 2 and _sent(llm) == (RULE, SEGMENTS) and llm.bodies[0]["max_tokens"] == 1000


def test_passages_are_ranked_in_the_words_of_the_thesis_without_a_schema(llm: LLMServer) -> None:
    llm.reply = lambda prompt: json.dumps(upside_down(passages(prompt)))
    ran = run("bm25 >> llm_listwise(reverse=false, top=4, keep=4, prompt=paper)", services_for(llm))
    system, user = _sent(llm)
    fenced = re.compile(r"<passage 1>.*</passage 4>", re.DOTALL)
    assert system == RULE and fenced.sub("PASSAGES", user) == LISTWISE
    assert "response_format" not in llm.bodies[0] and "schema" not in json.dumps(llm.bodies[0])
    plain = run("bm25", services_for(llm))
    assert ordinals(ran)[0] == ordinals(plain)[3]


@pytest.mark.parametrize(("reply", "used"), [("[1, 5, 3, 7, 2]", False), ("[1, 5, 3, 4, 2]", True)])
def test_the_example_of_a_prompt_is_no_answer(llm: LLMServer, reply: str, used: bool) -> None:
    """Both models that were tried returned the example that our own prompt had then, often or always."""
    llm.say(reply)
    ran = run("bm25 >> llm_listwise(reverse=false, top=5, keep=5, prompt=paper)", services_for(llm))
    assert (NO_ORDER in ran.trace[-1].note) is not used


def test_our_own_prompt_shows_no_order(llm: LLMServer) -> None:
    assert ListPrompt.of(services_for(llm).prompt("llm_listwise", "v1", ListPrompt.SLOTS)).examples == []


def test_the_cascade_study_lets_the_model_reason_first(llm: LLMServer) -> None:
    llm.reply = lambda prompt: f"Document 4 names the cash [1].\n{json.dumps(upside_down(passages(prompt)))}"
    ran = run("bm25 >> llm_listwise(reverse=false, top=4, keep=4, prompt=paper_cascade)", services_for(llm))
    assert "Briefly reason about which document best answers the query, then return a JSON array" in _sent(llm)[1]
    assert ordinals(ran)[0] == ordinals(run("bm25", services_for(llm)))[3]


@pytest.mark.parametrize("words", ["favour sparse weights for finance and numeric queries", "entity-rich"])
def test_weights_are_asked_for_as_the_cascade_study_says(llm: LLMServer, words: str) -> None:
    llm.say('{"bm25": 0.5, "tfidf": 0.5}')
    run("bm25 + tfidf >> llm_weights(reverse=false, mode=query, prompt=paper)", services_for(llm))
    system, user = _sent(llm)
    assert words in system.lower() and "paraphrase" not in system.split("Favour")[1] and user.startswith("<query>")
