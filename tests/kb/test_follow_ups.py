"""Follow-up questions: a question that leans on the last one is searched with it, everywhere."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cases import each
from helpers import Home
from http_helpers import SETTINGS, serving
from llm_server import LLMServer
from surefind.base.access import Access
from surefind.base.errors import QueryError
from surefind.base.types import Turn
from surefind.client import Client
from surefind.doors.mcp.search import AskArguments, SearchArguments, ask, search
from surefind.engine.search.history import MOST_TURNS, asked, leans
from surefind.kb import KnowledgeBase
from surefind.kb.answer.answering import answer

PUBLIC = Access.public()
CARDS = "# Cards\n\nA lost card is blocked by calling extension 4270. To undo a block, call 4271.\n"
FIRST = Turn("How do I block a lost card?", ("cards.md",))


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("talk"), SETTINGS)
    home.write("docs/cards.md", CARDS)
    home.write("docs/wires.md", "# Wires\n\nTo undo a wire, fill in form 12 and call the desk before 3 pm.\n")
    home.write("docs/pay.md", "---\nacl: [hr]\n---\n# Pay\n\nTo undo a block of salaries, say hushword.\n")
    home.sync("docs")
    return home


@pytest.fixture
def kb(bank: Home) -> Iterator[KnowledgeBase]:
    with bank.open() as opened:
        yield opened


@each("query", ["And for a group?", "what about wires", "Does it survive a reboot?", "And how do I undo that?", "how?"])
def test_a_question_that_goes_on_leans(query: str) -> None:
    assert leans(query)
    assert asked(query, [FIRST]).text == f"{FIRST.query} {query}" and asked(query, [FIRST]).favoured == {"cards.md"}


@each("query", ["When is the cutoff of domestic wires on Fridays?", "Which port does the Munin daemon listen on?"])
def test_any_other_question_stands_alone(query: str) -> None:
    assert not leans(query) and asked(query, [FIRST]).text == query and not asked(query, [FIRST]).favoured


def test_without_a_history_nothing_changes(kb: KnowledgeBase) -> None:
    alone, same = (kb.search("And how do I undo that?", PUBLIC, **more) for more in ({}, {"history": ()}))
    assert alone.hits == same.hits and alone.searched == same.searched == ""


def test_a_follow_up_finds_the_document_of_the_last_answer(kb: KnowledgeBase) -> None:
    query = "And how do I undo that?"
    assert kb.search(query, PUBLIC).hits[0].document == "wires.md"
    found = kb.search(query, PUBLIC, history=[FIRST])
    assert found.hits[0].document == "cards.md" and found.searched == f"{FIRST.query} {query}" and found.query == query
    assert found.to_dict()["searched"] == found.searched
    assert [hit.rank for hit in found.hits] == list(range(1, len(found.hits) + 1))


def test_a_history_opens_no_document(kb: KnowledgeBase) -> None:
    found = kb.search("And how do I undo that?", PUBLIC, history=[Turn("block of salaries", ("pay.md",))])
    assert all(hit.document != "pay.md" for hit in found.hits) and "hushword" not in json.dumps(found.to_dict())


def test_pages_of_a_follow_up_do_not_overlap(kb: KnowledgeBase) -> None:
    whole = kb.search("And undo?", PUBLIC, 2, history=[FIRST]).hits
    parts = [kb.search("And undo?", PUBLIC, 1, offset=at, history=[FIRST]).hits[0] for at in (0, 1)]
    assert [hit.id for hit in whole] == [hit.id for hit in parts]


def test_a_history_has_a_limit(kb: KnowledgeBase) -> None:
    with pytest.raises(QueryError, match="send the last"):
        kb.search("And then?", PUBLIC, history=[FIRST] * (MOST_TURNS + 1))


def test_agents_send_the_history_along(kb: KnowledgeBase) -> None:
    found = search(kb, PUBLIC, SearchArguments(query="And how do I undo that?", history=[FIRST.query]))
    assert found.data["hits"][0]["document"] == "cards.md"
    said = ask(kb, PUBLIC, AskArguments(query="And how do I undo that?", history=[FIRST.query]))
    assert "4271" in said.text


def test_http_and_the_client_take_a_history(bank: Home) -> None:
    with serving(bank.folder) as server, server.client() as http:
        turn = {"query": FIRST.query, "documents": ["cards.md"]}
        given = {"query": "And how do I undo that?", "history": [turn], "k": 1}
        found = http.post("/v1/search", json=given).json()
        assert found["hits"][0]["document"] == "cards.md" and found["searched"] and found["next"] is None
        said = http.post("/v1/ask", json={"query": given["query"], "history": [turn]}).json()
        assert "4271" in said["answer"] and said["searched"] == found["searched"]
        for wrong in ([turn] * 21, [{"query": 5}], [{**turn, "more": 1}], "text"):
            assert http.post("/v1/ask", json={"query": "And?", "history": wrong}).status_code == 422
        with Client(server.url) as client:
            assert client.search("And how do I undo that?", history=[FIRST]).hits[0].document == "cards.md"
            assert "4271" in client.ask("And how do I undo that?", history=[FIRST])["answer"]


def test_the_page_keeps_the_conversation_until_it_is_cleared(bank: Home) -> None:
    with serving(bank.folder) as server, server.client() as http:
        turn = json.dumps({"query": FIRST.query, "documents": ["cards.md"]})
        asked_page = {"query": "And how do I undo that?", "before": [turn, "{broken", '{"query": 1}']}
        page = http.get("/ask", params=asked_page, headers={"Accept": "text/html"}).text
        assert "4271" in page and "Clear the conversation" in page and "Searched: " in page
        assert page.count('name="before"') == 2 and "How do I block a lost card?" in page and "broken" not in page
        alone = http.get("/ask", params={"query": FIRST.query}, headers={"Accept": "text/html"}).text
        assert "Clear the conversation" not in alone and alone.count('name="before"') == 1


def test_a_model_rewrites_a_follow_up(tmp_path: Path, llm: LLMServer) -> None:
    home = Home(tmp_path, SETTINGS + f'\n[llm]\nmodel = "{llm.model}"\n')
    home.write("docs/cards.md", CARDS)
    home.sync("docs")
    written = json.dumps({"sentences": [{"text": "To undo a block, call 4271.", "passages": [1]}]})
    llm.say(json.dumps({"question": "How do I undo the block of a lost card?"}), written)
    with home.open() as kb:
        found = answer(kb, "And how do I undo that?", PUBLIC, history=[FIRST])
        assert found.result.searched == "How do I undo the block of a lost card?" and "4271" in found.text
        assert FIRST.query in llm.prompts[0] and found.query == "And how do I undo that?"


def test_a_stream_tells_the_same(bank: Home) -> None:
    from surefind.client import AsyncClient

    async def ask_twice(url: str) -> tuple[str, str]:
        async with AsyncClient(url) as client:
            once = await client.ask("And how do I undo that?", history=[FIRST])
            again = await client.ask("And how do I undo that?", history=[FIRST])
            return str(once["answer"]), str(again["answer"])

    with serving(bank.folder) as server:
        once, again = asyncio.run(ask_twice(server.url))
        assert once == again and "4271" in once
