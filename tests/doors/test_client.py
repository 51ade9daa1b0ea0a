"""The clients: the same answers as Python's, over a real server."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import Any

import pytest

from helpers import Home
from http_helpers import Served
from surefind.base.access import Access
from surefind.base.errors import RefusedError
from surefind.client import AsyncClient, Client


def test_both_clients_give_the_hits_of_python(bank: Home, server: Served) -> None:
    with bank.open() as kb:
        wanted = kb.search("cutoff of wire7", Access.public(), 5)
    with Client(server.url) as client:
        found = client.search("cutoff of wire7", 5)
        passage = client.passage(found.hits[0].id, query="wire7")

    async def ask() -> object:
        async with AsyncClient(server.url) as other:
            return (await other.search("cutoff of wire7", 5)).hits

    assert found.hits == wanted.hits == asyncio.run(ask())
    assert found.pipeline == wanted.pipeline and found.generation == wanted.generation
    assert passage.text == found.hits[0].text


def test_pages_give_each_hit_once(server: Served) -> None:
    async def count() -> int:
        async with AsyncClient(server.url) as other:
            return len([hit.id async for page in other.pages("cutoff", 9) for hit in page.hits])

    with Client(server.url) as client:
        ids = [hit.id for page in client.pages("cutoff", 9) for hit in page.hits]
    assert len(ids) == len(set(ids)) == 31 == asyncio.run(count())


def test_uploads_jobs_feedback_and_documents(server: Served) -> None:
    with Client(server.url) as client:
        draft = client.upload("new.md", b"# New\n\ntext")
        job = client.publish(draft["number"])
        while not (job := client.job(job["id"]))["ended"]:
            pass
        assert job["state"] == "finished"
        hit = client.search("wire3", 1).hits[0]
        client.feedback("wire3", hit.id, "click")
        assert client.document("wires/03.md")["title"] == "Wire 3"
        assert len(client.documents("wires/", limit=5)["documents"]) == 5


def finished(client: Client, job: dict[str, Any]) -> bool:
    while not (job := client.job(job["id"]))["ended"]:
        time.sleep(0.02)
    return bool(job["state"] == "finished")


def test_a_document_is_retired_and_restored(server: Served) -> None:
    with Client(server.url) as client:
        assert not client.versions("wires/09.md")["retired"]
        assert finished(client, client.retire("wires/09.md"))
        with pytest.raises(RefusedError, match="no document"):
            client.document("wires/09.md")
        with pytest.raises(RefusedError, match="no document"):
            client.retire("wires/09.md")
        listed = client.versions("wires/09.md")
        assert listed["retired"]
        draft = client.restore(listed["versions"][0]["number"])
        assert draft["document"] == "wires/09.md"
        assert finished(client, client.publish(draft["number"]))
        assert client.document("wires/09.md")["title"] == "Wire 9"

    async def again() -> object:
        async with AsyncClient(server.url) as other:
            number = (await other.versions("wires/09.md"))["versions"][0]["number"]
            return (await other.restore(number))["document"]

    assert asyncio.run(again()) == "wires/09.md"


def test_a_refusal_has_the_sentence_of_the_server(server: Served) -> None:
    with Client(server.url) as client:
        with pytest.raises(RefusedError, match="no document") as error:
            client.document("none.md")
        assert error.value.status == 404
        with pytest.raises(RefusedError, match="at most"):
            client.search("x", 1000)


def test_both_clients_have_the_same_methods() -> None:
    ours, theirs = ({name for name in dir(kind) if not name.startswith("_")} for kind in (Client, AsyncClient))
    assert ours == theirs and {"search", "pages", "publish", "close"} <= ours


def test_methods_show_what_they_take(server: Served) -> None:
    with Client(server.url) as client:
        given = inspect.signature(client.passage)
        assert [*given.parameters] == ["passage_id", "text", "max_chars", "query"]
        assert client.passage.__doc__ == "Reads the passage with the id of a hit."
