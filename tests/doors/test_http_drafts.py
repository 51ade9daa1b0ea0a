"""Drafts over HTTP: two people review each other, and nobody sees or does more than they may."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from helpers import Home
from http_helpers import Rights, Served


@pytest.fixture(scope="module")
def rights() -> Rights:
    every = ["read", "write", "review"]
    return {
        "ada": (every, []),
        "bob": (every, []),
        "writer": (["read", "write"], []),
        "hr": (every, ["hr"]),
        "reader": (["read"], []),
    }


@pytest.fixture
def people(server: Served, keys: dict[str, str]) -> Iterator[dict[str, httpx.Client]]:
    clients = {name: server.client(key) for name, key in keys.items()}
    yield clients
    for client in clients.values():
        client.close()


def upload(client: httpx.Client, text: str, document: str, name: str = "new.md") -> int:
    made = client.post("/v1/documents", params={"name": name, "document": document}, content=text.encode())
    assert made.status_code == 201, made.text
    return int(made.json()["number"])


def ended(client: httpx.Client, job: str) -> dict[str, object]:
    for _ in range(600):
        found = client.get(f"/v1/jobs/{job}").json()
        if found["ended"]:
            return dict(found)
        time.sleep(0.05)
    raise AssertionError("the job did not end")


def test_two_people_review_each_other(people: dict[str, httpx.Client]) -> None:
    ada, bob = people["ada"], people["bob"]
    drafts = {"ada": upload(ada, "okapi rule", "ada.md"), "bob": upload(bob, "quokka rule", "bob.md")}
    for author, reviewer in (("ada", bob), ("bob", ada)):
        number, own = drafts[author], people[author]
        assert own.post(f"/v1/drafts/{number}/publish").status_code == 400, "nobody approved it"
        assert own.post(f"/v1/drafts/{number}/submit").json()["state"] == "in review"
        assert own.post(f"/v1/drafts/{number}/approve", json={"revision": 1}).status_code == 400, "its own author"
        said = reviewer.post(f"/v1/drafts/{number}/comments", json={"revision": 1, "line": 1, "text": "why?"})
        assert said.status_code == 201
        resolved = own.post(f"/v1/drafts/{number}/comments/{said.json()['number']}/resolve")
        assert resolved.json()["resolved_by"] == author
        assert reviewer.post(f"/v1/drafts/{number}/approve", json={"revision": 1}).json()["state"] == "approved"
        job = own.post(f"/v1/drafts/{number}/publish", json={})
        assert ended(own, job.json()["id"])["state"] == "finished"
        word = {"ada": "okapi", "bob": "quokka"}[author]
        assert own.get("/v1/search", params={"query": word}).json()["hits"], "what is done can be seen"
        events = [one["what"] for one in own.get(f"/v1/drafts/{number}").json()["events"]]
        assert any("approved by" in what for what in events)


def test_save_names_the_revision_that_was_edited(people: dict[str, httpx.Client]) -> None:
    ada, bob = people["ada"], people["bob"]
    number = upload(ada, "one", "save.md")
    assert ada.put(f"/v1/drafts/{number}", content=b"two").status_code == 422, "If-Match is missing"
    assert ada.put(f"/v1/drafts/{number}", content=b"two", headers={"If-Match": "x"}).status_code == 400
    assert ada.put(f"/v1/drafts/{number}", content=b"two", headers={"If-Match": '"1"'}).json()["revision"] == 2
    late = bob.put(f"/v1/drafts/{number}", content=b"late", headers={"If-Match": "1"})
    assert (late.status_code, late.json()["newer"]) == (409, 2)
    assert "ada saved revision 2" in late.json()["detail"]
    assert ada.get(f"/v1/drafts/{number}").json()["text"] == "two"
    assert ada.get(f"/v1/drafts/{number}", params={"revision": 1}).json()["text"] == "one"
    ada.post(f"/v1/drafts/{number}/submit")
    assert bob.post(f"/v1/drafts/{number}/approve", json={"revision": 1}).status_code == 409
    assert bob.post(f"/v1/drafts/{number}/approve", json={"revision": 2}).json()["approvals"] == ["bob"]
    saved = ada.put(f"/v1/drafts/{number}", content=b"three", headers={"If-Match": "2"})
    assert (saved.json()["state"], saved.json()["approvals"]) == ("in review", [])
    assert ada.post(f"/v1/drafts/{number}/publish").status_code == 400
    assert bob.post(f"/v1/drafts/{number}/return").json()["state"] == "draft"
    assert ada.post(f"/v1/drafts/{number}/discard").json()["state"] == "discarded"


def test_who_may_not_sees_and_does_nothing(people: dict[str, httpx.Client]) -> None:
    number = upload(people["hr"], "---\nacl: [hr]\n---\nThe pay is 9.", "hr/new.md")
    for name in ("bob", "writer"):
        client = people[name]
        assert number not in [one["number"] for one in client.get("/v1/drafts").json()["drafts"]]
        assert client.get(f"/v1/drafts/{number}").status_code == 404
        assert client.get(f"/v1/drafts/{number}/preview").status_code == 404
        assert client.put(f"/v1/drafts/{number}", content=b"x", headers={"If-Match": "1"}).status_code == 404
        for what in ("submit", "discard", "rebase", "return", "publish"):
            assert client.post(f"/v1/drafts/{number}/{what}").status_code in (403, 404), what
        assert client.post(f"/v1/drafts/{number}/approve", json={"revision": 1}).status_code == 404
        body = {"revision": 1, "line": 1, "text": "x"}
        assert client.post(f"/v1/drafts/{number}/comments", json=body).status_code == 404
    assert people["reader"].get(f"/v1/drafts/{number}").status_code == 403


def test_writer_may_submit_and_not_review(people: dict[str, httpx.Client]) -> None:
    writer = people["writer"]
    number = upload(writer, "an idea", "idea.md")
    assert writer.post(f"/v1/drafts/{number}/submit").status_code == 200
    for what in ("return", "publish"):
        assert writer.post(f"/v1/drafts/{number}/{what}").status_code == 403
    assert writer.post(f"/v1/drafts/{number}/approve", json={"revision": 1}).status_code == 403
    assert "Reviewers see" in writer.get(f"/v1/drafts/{number}/preview").json()["questions"]["reason"]


def test_author_learns_nothing_of_a_document_that_they_may_not_read(people: dict[str, httpx.Client]) -> None:
    hidden, free = upload(people["writer"], "x", "hr/pay.md"), upload(people["writer"], "x", "hr/free.md")
    answers = []
    for number in (hidden, free):
        for path in ("", "/preview"):
            found = people["writer"].get(f"/v1/drafts/{number}{path}").text
            answers.append(found.replace(f'"number":{number},', "#").replace("pay.md", "free.md"))
    for line in (1, 2, 5, 50):
        body = {"revision": 1, "line": line, "text": "x"}
        made = [people["writer"].post(f"/v1/drafts/{number}/comments", json=body) for number in (hidden, free)]
        assert made[0].status_code == made[1].status_code and made[0].json().keys() == made[1].json().keys(), line
    assert answers[0].split('"created"')[0] == answers[2].split('"created"')[0]
    assert answers[1] == answers[3]
    assert "zebra" not in "".join(answers) and '"acl"' not in "".join(answers)
    shown = people["hr"].get(f"/v1/drafts/{hidden}").json()
    assert "zebra" in str(shown["difference"])


def test_preview_shows_chunks_and_leaves_nothing_behind(bank: Home, people: dict[str, httpx.Client]) -> None:
    ada = people["ada"]
    number = upload(ada, "# Wire 3\n\nNothing is said any more.\n", "wires/03.md")
    with bank.open() as kb:
        before = kb.catalogue.generation()
    found = ada.get(f"/v1/drafts/{number}/preview")
    assert found.status_code == 200, found.text
    assert "Nothing is said any more." in found.json()["chunks"][0]["text"]
    assert "There is no exam yet" in found.json()["questions"]["reason"]
    with bank.open() as kb:
        assert kb.catalogue.generation() == before


def test_version_is_restored_by_who_may_read_it(bank: Home, people: dict[str, httpx.Client]) -> None:
    version = people["ada"].get("/v1/versions", params={"document": "wires/05.md"}).json()["versions"][0]["number"]
    made = people["ada"].post(f"/v1/versions/{version}/restore")
    assert made.status_code == 201 and made.json()["document"] == "wires/05.md"
    with bank.open() as kb:
        hidden = kb.history("hr/pay.md")[0].number
    for number in (hidden, 10**9):
        assert people["ada"].post(f"/v1/versions/{number}/restore").status_code == 404


def test_a_loop_of_syncs_refuses_no_publish(people: dict[str, httpx.Client]) -> None:
    """One key starts syncs as fast as it can; the drafts of others are published, one after the other."""
    ada, bob, writer = people["ada"], people["bob"], people["writer"]
    ended_loop, codes, jobs = threading.Event(), list[int](), set[str]()

    def loop() -> None:
        while not ended_loop.is_set():
            answer = writer.post("/v1/jobs", json={"kind": "sync"})
            codes.append(answer.status_code)
            jobs.add(answer.json().get("id", ""))

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        for turn in range(4):
            number = upload(ada, f"tapir rule {turn}", f"loop-{turn}.md")
            assert ada.post(f"/v1/drafts/{number}/submit").status_code == 200
            assert bob.post(f"/v1/drafts/{number}/approve", json={"revision": 1}).status_code == 200
            job = bob.post(f"/v1/drafts/{number}/publish")
            assert job.status_code == 202, job.text
            assert ended(bob, job.json()["id"])["state"] == "finished"
    finally:
        ended_loop.set()
        thread.join(60)
    assert set(codes) == {202} and len(codes) > 2 * len(jobs), "those that wait are one"


def test_too_many_jobs_are_answered_429_and_when_to_try_again(people: dict[str, httpx.Client]) -> None:
    ada, bob, writer = people["ada"], people["bob"], people["writer"]
    with ThreadPoolExecutor(9) as threads:  # at once: a benchmark of a small exam ends after a few seconds
        answers = [*threads.map(lambda _: ada.post("/v1/jobs", json={"kind": "bench"}), range(9))]
    answers.sort(key=lambda answer: answer.status_code)
    assert [answer.status_code for answer in answers] == [202] * 8 + [429]
    refused = answers[8]
    assert int(refused.headers["retry-after"]) >= 1 and "You have 8 jobs" in refused.json()["detail"]
    page = ada.post("/graph", headers={"Accept": "text/html", "Origin": str(ada.base_url)})
    assert page.status_code == 429 and "You have 8 jobs" in page.text
    others = [client.post("/v1/jobs", json={"kind": "sync"}) for client in (writer, bob)]
    assert [answer.status_code for answer in others] == [202, 202]
    assert {answer.json()["state"] for answer in answers[:8]} == {"running", "waiting"}
    for answer in answers[:8]:
        assert ada.delete(f"/v1/jobs/{answer.json()['id']}").status_code == 200
    assert [job["state"] for job in ada.get("/v1/jobs").json()["jobs"][:8]] == ["cancelled"] * 8
