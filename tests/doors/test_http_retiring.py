"""Documents are retired and restored over HTTP and on the pages, by those who may."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import httpx
import pytest

from helpers import Home
from http_helpers import Rights, a_bank, serving
from surefind.doors.auth.keys import Keys
from surefind.lab.exam.model import Exam, ExamQuery, Judgment
from surefind.lab.exam.store import ExamStore

HTML = {"Accept": "text/html"}
WHO: Rights = {"ada": (["review"], []), "hr": (["review"], ["hr"]), "writer": (["write"], [])}


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = a_bank(Home(tmp_path_factory.mktemp("retiring")))
    asked = ExamQuery("1", "When is the cutoff of wire3?", (Judgment("wires/03.md"),))
    ExamStore(home.folder / ".surefind/exams").save(Exam("asked", (asked,)))
    return home


@pytest.fixture(scope="module")
def people(bank: Home) -> Iterator[dict[str, httpx.Client]]:
    with bank.open() as kb:
        made = {
            name: Keys(kb.data).create(name, list(scopes), list(groups))[1] for name, (scopes, groups) in WHO.items()
        }
    with serving(bank.folder) as server:
        clients = {name: server.client(key) for name, key in made.items()}
        yield clients
        for client in clients.values():
            client.close()


def ended(client: httpx.Client, job: str) -> str:
    for _ in range(600):
        found = client.get(f"/v1/jobs/{job}").json()
        if found["ended"]:
            return str(found["state"])
        time.sleep(0.05)
    raise AssertionError("the job did not end")


def test_a_document_is_retired_and_restored_by_the_api(people: dict[str, httpx.Client]) -> None:
    ada = people["ada"]
    assert people["writer"].post("/v1/documents/wires/05.md/retire").status_code == 403
    assert ada.post("/v1/documents/hr/pay.md/retire").status_code == 404
    assert ada.post("/v1/documents/nonesuch.md/retire").status_code == 404
    job = ada.post("/v1/documents/wires/05.md/retire")
    assert job.status_code == 202 and ended(ada, job.json()["id"]) == "finished"
    assert ada.get("/v1/documents/wires/05.md").status_code == 404
    found = ada.get("/v1/versions", params={"document": "wires/05.md"}).json()
    assert found["retired"] and len(found["versions"]) == 1
    number = found["versions"][0]["number"]
    for other in ("writer",):
        assert people[other].get("/v1/versions", params={"document": "wires/05.md"}).status_code == 404
        assert people[other].post(f"/v1/versions/{number}/restore").status_code == 404
    assert ada.post("/v1/versions/999999/restore").status_code == 404
    made = ada.post(f"/v1/versions/{number}/restore")
    assert made.status_code == 201 and made.json()["document"] == "wires/05.md"


def test_the_page_says_what_is_affected_and_then_that_it_is_retired(people: dict[str, httpx.Client]) -> None:
    ada = people["ada"]
    page = ada.get("/documents/wires/03.md", headers=HTML).text
    (link,) = re.findall(r'href="(/retire[^"]+)"', page)
    assert "/retire" not in people["writer"].get("/documents/wires/03.md", headers=HTML).text
    asked = ada.get(link, headers=HTML).text
    assert "1 exam question</b> asks for this document" in asked and "When is the cutoff of wire3?" in asked
    job = ada.post("/retire", data={"document": "wires/03.md"}, headers=HTML)
    assert ended(ada, job.headers["location"].rpartition("/")[2]) == "finished"
    gone = ada.get("/documents/wires/03.md", headers=HTML)
    assert "This document is retired" in gone.text and "3 pm" not in gone.text
    assert people["writer"].get("/documents/wires/03.md", headers=HTML).status_code == 404
    (version,) = re.findall(r'name="version" value="(\d+)"', gone.text)
    made = ada.post("/documents/restore", data={"version": version}, headers=HTML)
    assert made.status_code == 303 and "cutoff of wire3" in ada.get(made.headers["location"], headers=HTML).text


def test_a_retired_document_is_not_known_to_who_could_not_read_it(people: dict[str, httpx.Client]) -> None:
    hr, ada = people["hr"], people["ada"]
    job = hr.post("/v1/documents/hr/pay.md/retire")
    assert ended(hr, job.json()["id"]) == "finished"
    assert "This document is retired" in hr.get("/documents/hr/pay.md", headers=HTML).text
    hidden, none = (ada.get(f"/documents/hr/{name}.md", headers=HTML) for name in ("pay", "nonesuch"))
    drop = re.compile(r"request \w+|nonesuch|pay")
    assert hidden.status_code == none.status_code == 404 and drop.sub("", hidden.text) == drop.sub("", none.text)
    number = hr.get("/v1/versions", params={"document": "hr/pay.md"}).json()["versions"][0]["number"]
    assert ada.post(f"/v1/versions/{number}/restore").status_code == 404
