"""Drafts from their first text to their publication, through the Python clients and through the tools for agents."""

from __future__ import annotations

import asyncio
import inspect
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cases import each
from http_helpers import Rights, Served
from surefind import client as requests
from surefind.base.errors import RefusedError
from surefind.client import AsyncClient, Client


@pytest.fixture(scope="module")
def rights() -> Rights:
    every = ["read", "write", "review"]
    return {"ada": (every, []), "bob": (every, []), "writer": (["write"], [])}


def ended(client: Client, job: str) -> str:
    for _ in range(600):
        found = client.job(job)
        if found["ended"]:
            return str(found["state"])
        time.sleep(0.05)
    raise AssertionError("the job did not end")


def test_every_route_of_drafts_has_a_method(server: Served, keys: dict[str, str]) -> None:
    with server.client(keys["ada"]) as http:
        paths = http.get("/openapi.json").json()["paths"]
    routes = {
        (method.upper(), re.sub(r"{\w+}", "7", path))
        for path, methods in paths.items() for method, about in methods.items() if about["tags"] == ["drafts"]
    }  # fmt: skip
    made = []
    actions = ("submit", "approve", "hand_back", "rebase", "discard", "publish")
    for name in ("drafts", "draft", "save", "preview", "comment", "resolve", "restore", *actions):
        function = getattr(requests, name)
        given = {"content": b"", "name": "", "text": ""}
        made.append(function(**{one: given.get(one, 7) for one in inspect.signature(function).parameters}))
    assert len(routes) > 10 and routes == {(call.method, call.path) for call in made}


def test_python_takes_a_draft_to_its_publication(server: Served, keys: dict[str, str]) -> None:
    with Client(server.url, keys["ada"]) as ada, Client(server.url, keys["bob"]) as bob:
        number = ada.upload("okapi.md", b"# Okapi\n\nThe okapi rule.")["number"]
        assert ada.save(number, 1, b"# Okapi\n\nThe better okapi rule.")["revision"] == 2
        with pytest.raises(RefusedError, match="meanwhile") as error:
            bob.save(number, 1, b"# Okapi\n\nAnother rule.")
        assert error.value.status == 409
        ada.submit(number)
        said = bob.comment(number, 2, "Better than what?", line=3)
        bob.comment(number, 2, "It is not said.", reply_to=said["number"])
        assert bob.hand_back(number)["state"] == "draft"
        assert ada.resolve(number, said["number"])["resolved_by"] == "ada"
        assert [one["text"] for one in ada.draft(number)["comments"]] == ["Better than what?", "It is not said."]
        assert "okapi rule" in ada.preview(number)["chunks"][0]["text"]
        assert ada.rebase(number)["revision"] == 3
        ada.submit(number)
        assert number in [one["number"] for one in bob.drafts()["drafts"]]
        assert bob.approve(number, 3)["state"] == "approved"
        with pytest.raises(RefusedError, match="revision 3 now"):
            ada.publish(number, 2)
        assert ended(ada, ada.publish(number, 3)["id"]) == "finished"
        assert ada.search(query="okapi rule", k=1).hits[0].document == "okapi.md"
        other = ada.upload("other.md", b"Another text.")["number"]
        assert ada.discard(other)["state"] == "discarded"


def test_the_other_client_does_the_same(server: Served, keys: dict[str, str]) -> None:
    async def run() -> list[str]:
        async with AsyncClient(server.url, keys["ada"]) as ada, AsyncClient(server.url, keys["bob"]) as bob:
            number = (await ada.upload("quokka.md", b"# Quokka\n\nThe quokka rule."))["number"]
            await ada.save(number, 1, b"# Quokka\n\nThe better quokka rule.")
            said = await bob.comment(number, 2, "Why?")
            await ada.resolve(number, said["number"])
            assert "better" in (await bob.draft(number))["text"] and (await bob.preview(number))["chunks"]
            assert number in [one["number"] for one in (await bob.drafts())["drafts"]]
            done = [await ada.submit(number), await bob.hand_back(number), await ada.rebase(number)]
            done += [await ada.submit(number), await bob.approve(number, 3)]
            job = await ada.publish(number, 3)
            while not job["ended"]:
                await asyncio.sleep(0.05)
                job = await ada.job(job["id"])
            other = (await ada.upload("other.md", b"Another text."))["number"]
            return [*(one["state"] for one in (*done, job, await ada.discard(other)))]

    assert asyncio.run(run()) == ["in review", "draft", "draft", "in review", "approved", "finished", "discarded"]


@asynccontextmanager
async def agent(server: Served, key: str) -> AsyncIterator[Any]:
    from mcp import Client as Agent
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    async with (
        create_mcp_http_client(headers={"Authorization": f"Bearer {key}"}) as http,
        Agent(streamable_http_client(f"{server.url}/mcp", http_client=http)) as opened,
    ):

        async def call(tool: str, **given: Any) -> Any:
            return await opened.call_tool(tool, given)

        yield call


def test_agents_take_a_draft_to_its_publication(server: Served, keys: dict[str, str]) -> None:
    pytest.importorskip("mcp")

    async def run() -> str:
        async with agent(server, keys["writer"]) as writer, agent(server, keys["bob"]) as bob:
            made = (await writer("propose", document="numbat.md", text="# Numbat\n\nA rule.")).structured_content
            number = made["number"]
            changed = {"document": "numbat.md", "text": "# Numbat\n\nThe numbat rule.", "number": number}
            assert (await writer("propose", **changed, revision=1)).structured_content["revision"] == 2
            said = (await bob("review", number=number, action="comment", revision=2, line=3, text="Why?")).content[0]
            which = int(re.findall(r"\d+", said.text)[-1])
            assert not (await writer("review", number=number, action="resolve", comment=which)).is_error
            states = []
            for who, action in ((writer, "submit"), (bob, "return"), (writer, "rebase"), (writer, "submit")):
                result = await who("review", number=number, action=action)
                states.append(result.structured_content["state"])
            assert states == ["in review", "draft", "draft", "in review"]
            for action in ("approve", "publish"):  # the writer has not the scope
                refused = await writer("review", number=number, action=action, revision=3)
                assert refused.is_error and "review" in refused.content[0].text
            early = await bob("review", number=number, action="publish", revision=3)
            assert early.is_error and "needs 1 approval" in early.content[0].text
            approved = await bob("review", number=number, action="approve", revision=3)
            assert approved.structured_content["state"] == "approved"
            stale = await bob("review", number=number, action="publish", revision=2)
            assert stale.is_error and "revision 3 now" in stale.content[0].text
            started = await bob("review", number=number, action="publish", revision=3)
            return str(started.structured_content["job"])

    job = asyncio.run(run())
    with Client(server.url, keys["bob"]) as client:
        assert ended(client, job) == "finished"
        assert client.search("numbat rule", 1).hits[0].document == "numbat.md"


@each("name", ["q", "question"])
def test_another_name_for_the_query_is_answered_with_its_name(server: Served, keys: dict[str, str], name: str) -> None:
    said = f"There is no {name}: the text of a search is called query."
    with server.client(keys["ada"]) as http:
        answers = [
            http.get("/v1/search", params={name: "wire"}),
            http.get("/v1/passages/0000000000000000", params={name: "wire"}),
            *(http.post(path, json={name: "wire"}) for path in ("/v1/search", "/v1/ask")),
            http.post("/v1/feedback", json={name: "wire", "id": "0" * 16, "kind": "up"}),
            http.post("/v1/exams/kept/questions", json={name: "wire", "id": "0" * 16}),
        ]
        assert [(one.status_code, one.json()["detail"]) for one in answers] == [(422, said)] * len(answers)
        for path in ("/", "/ask", "/documents/wires/01.md"):
            page = http.get(path, params={name: "wire"}, headers={"Accept": "text/html"})
            assert page.status_code == 422 and said in page.text
