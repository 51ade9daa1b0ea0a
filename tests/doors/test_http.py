"""The HTTP server: a real process on the loopback, asked by a real client."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from helpers import Home
from http_helpers import Served, a_bank, serving
from surefind.base.access import Access
from surefind.kb import KnowledgeBase


@pytest.fixture
def http(server: Served) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


def _problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert found["status"] == status and found["detail"] and found["request_id"] == answer.headers["x-request-id"]
    assert "Traceback" not in answer.text and "/tmp" not in answer.text
    return dict(found)


# ---------------------------------------------------------------- searching


def test_a_search_gives_the_hits_of_python(bank: Home, http: httpx.Client) -> None:
    got = http.get("/v1/search", params={"query": "cutoff of wire7", "k": 3})
    posted = http.post("/v1/search", json={"query": "cutoff of wire7", "k": 3})
    with bank.open() as kb:
        wanted = kb.search("cutoff of wire7", Access.public(), 3).to_dict()
    assert got.status_code == posted.status_code == 200
    assert got.json()["hits"] == posted.json()["hits"] == json.loads(json.dumps(wanted["hits"]))
    assert "withheld" not in got.json() and "zebra" not in got.text


def test_the_same_question_again_is_answered_the_same(http: httpx.Client) -> None:
    first, second = (http.get("/v1/search", params={"query": "wire3"}).text for _ in range(2))
    assert first == second


def test_sizes_filters_and_pipelines(http: httpx.Client) -> None:
    wanted = {
        "query": "wire7",
        "k": 1,
        "text": "window=1",
        "max_chars": 60,
        "pipeline": "counts",
        "where": ["title=wire 7"],
    }
    (hit,) = http.get("/v1/search", params=wanted).json()["hits"]
    assert hit["title"] == "Wire 7" and len(hit["text"]) <= 60 and hit["lines"][0] >= 4
    assert _problem(http.get("/v1/search", params={"query": "x", "where": "secretkey=zebra"}), 400)[
        "detail"
    ].startswith("No")
    assert "zebra" not in http.get("/v1/search", params={"query": "x", "where": "secretke=zebra"}).json()["detail"]


def test_pages_follow_one_ranking_while_documents_change(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = a_bank(Home(tmp_path_factory.mktemp("pages")))
    with serving(home.folder) as server, server.client() as http:
        whole = [hit["id"] for hit in http.get("/v1/search", params={"query": "cutoff", "k": 30}).json()["hits"]]
        page = http.get("/v1/search", params={"query": "cutoff", "k": 7}).json()
        found = [hit["id"] for hit in page["hits"]]
        home.write("docs/new.md", "cutoff cutoff cutoff")
        home.sync("docs")
        for _ in range(100):
            if http.get("/v1/search", params={"query": "cutoff", "k": 1}).json()["generation"] > page["generation"]:
                break
            time.sleep(0.05)
        else:
            raise AssertionError("the new generation was not served")
        while page["next"]:
            page = http.get(page["next"]).json()
            found += [hit["id"] for hit in page["hits"]]
        assert found[:30] == whole
        assert "new.md" in http.get("/v1/search", params={"query": "cutoff", "k": 1}).text
        _problem(http.get("/v1/search", params={"query": "cutoff", "generation": 999}), 404)


@pytest.mark.parametrize(
    ("params", "status"),
    [
        ({}, 422),
        ({"query": ""}, 422),
        ({"query": " "}, 400),
        ({"query": "x" * 2001}, 400),
        ({"query": "x", "k": 0}, 422),
        ({"query": "x", "k": 101}, 400),
        ({"query": "x", "k": "many"}, 422),
        ({"query": "x", "offset": 5000}, 422),
        ({"query": "x", "text": "all"}, 400),
        ({"query": "x", "max_chars": 3}, 400),
        ({"query": "x", "where": "no"}, 400),
        ({"query": "x", "where": ["a=b"] * 21}, 422),
        ({"query": "x", "pipeline": "none"}, 403),
        ({"query": "x", "pipeline": "onnx(path=/etc/passwd)"}, 403),
        ({"query": "x", "pipeline": "dense(model='openai(url=http://127.0.0.1:1/v1)')"}, 403),
        ({"query": "x", "unknown": 1}, 422),
    ],
)
def test_a_wrong_search_gets_one_sentence(http: httpx.Client, params: dict[str, Any], status: int) -> None:
    _problem(http.get("/v1/search", params=params), status)


# ---------------------------------------------------------------- reading


def test_documents_and_passages(http: httpx.Client) -> None:
    page = http.get("/v1/documents", params={"limit": 10}).json()
    rest = http.get("/v1/documents", params={"limit": 1000, "offset": page["next"]}).json()
    names = [one["document"] for one in (*page["documents"], *rest["documents"])]
    bundled = {*(f"wires/{n:02}.md" for n in range(30)), "page.html"}
    assert len(names) == len(set(names)) and {*names} >= bundled  # other tests may have added some
    assert "hr/pay.md" not in names and rest["next"] is None
    found = http.get("/v1/documents/wires/07.md").json()
    assert found["text"].startswith("# Wire 7") and found["source"] == "docs" and found["path"] == "wires/07.md"
    assert http.get("/v1/documents/wires/07.md", params={"start": 2, "end": 6}).json()["text"] == "Wire"
    (hit,) = http.get("/v1/search", params={"query": "wire7", "k": 1}).json()["hits"]
    passage = http.get(f"/v1/passages/{hit['id']}", params={"query": "wire7"}).json()
    assert (passage["text"], passage["sentence"]) == (hit["text"], hit["sentence"])
    (version,) = http.get("/v1/versions", params={"document": "wires/07.md"}).json()["versions"]
    assert version["number"] == hit["version"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/documents/hr/pay.md",
        "/v1/documents/none.md",
        "/v1/documents/../../etc/passwd",
        "/v1/passages/zzz",
        "/v1/versions?document=hr/pay.md",
        "/v1/exams/none",
        "/v1/exams/..%2f..",
        "/v1/reports/..%2f..",
        "/v1/jobs/none",
        "/v1/none",
    ],
)
def test_what_is_not_there_or_not_allowed_is_not_found(http: httpx.Client, path: str) -> None:
    _problem(http.get(path), 404)


def test_what_is_no_name_of_a_document_is_a_bad_request(http: httpx.Client) -> None:
    _problem(http.get("/v1/documents/%2e%2e/%2e%2e/etc/passwd"), 400)


def test_html_of_a_document_is_never_a_page(http: httpx.Client) -> None:
    answer = http.get("/v1/documents/page.html")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff" and "alert" not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_the_manual_needs_nothing_from_elsewhere(http: httpx.Client) -> None:
    page = http.get("/docs")
    assert page.status_code == 200 and "/v1/search" in page.text and "<script" not in page.text
    assert not re.findall(r"(?:src|href)=['\"]?(?:https?:)?//", page.text)
    assert http.get("/openapi.json").json()["info"]["title"] == "Surefind"


# ---------------------------------------------------------------- uploads and jobs


def _ended(http: httpx.Client, job: str) -> dict[str, Any]:
    for _ in range(400):
        found = http.get(f"/v1/jobs/{job}").json()
        if found["ended"]:
            return dict(found)
        time.sleep(0.05)
    raise AssertionError(f"the job did not end: {found}")


def test_an_upload_is_a_draft_until_it_is_published(bank: Home, http: httpx.Client) -> None:
    made = http.post("/v1/documents", params={"name": "lunch.md"}, content=b"# Lunch\n\nThe lunchtime is noon.")
    assert made.status_code == 201 and made.json()["state"] == "draft"
    assert not http.get("/v1/search", params={"query": "lunchtime"}).json()["hits"]
    assert made.json()["number"] in [one["number"] for one in http.get("/v1/drafts").json()["drafts"]]
    job = http.post(f"/v1/drafts/{made.json()['number']}/publish")
    assert job.status_code == 202
    with http.stream("GET", f"/v1/jobs/{job.json()['id']}/events") as answer:
        events = "".join(answer.iter_text())
    assert "event: end" in events and '"state":"finished"' in events
    for _ in range(100):
        if http.get("/v1/search", params={"query": "lunchtime"}).json()["hits"]:
            break
        time.sleep(0.05)
    else:
        raise AssertionError("the published draft was not found")
    with bank.open() as kb:
        assert kb.history("lunch.md")[0].author == "anyone on this machine"


@pytest.mark.parametrize(
    "name", ["../x.md", "..", ".x.md", "a/b.md", "a\\b.md", "a\0.md", "a\n.md", "", "x" * 201 + ".md"]
)
def test_a_hostile_name_is_refused(http: httpx.Client, name: str) -> None:
    _problem(http.post("/v1/documents", params={"name": name}, content=b"text"), 400)


@pytest.mark.parametrize("document", ["../x.md", "/etc/x.md", "a/../../b.md", "a\\b"])
def test_a_hostile_document_is_refused(http: httpx.Client, document: str) -> None:
    _problem(http.post("/v1/documents", params={"name": "x.md", "document": document}, content=b"text"), 400)


def test_a_broken_file_is_named_without_its_folder(http: httpx.Client) -> None:
    assert (
        "broken.pdf"
        in _problem(http.post("/v1/documents", params={"name": "broken.pdf"}, content=b"%PDF"), 400)["detail"]
    )
    _problem(http.post("/v1/documents", params={"name": "x.exe"}, content=b"text"), 400)
    _problem(http.post("/v1/documents", params={"name": "x.md"}), 400)


def test_a_large_body_is_refused(http: httpx.Client) -> None:
    _problem(http.post("/v1/search", content=b'{"query": "' + b"x" * 300_000 + b'"}'), 413)
    _problem(http.post("/v1/search", content=iter([b"x" * 200_000] * 3)), 413)
    assert http.post("/v1/documents", params={"name": "big.md"}, content=b"word " * 100_000).status_code == 201


def test_jobs_are_checked_and_can_be_cancelled(http: httpx.Client) -> None:
    _problem(http.post("/v1/jobs", json={"kind": "rm"}), 422)
    _problem(http.post("/v1/jobs", json={"kind": "publish", "version": 1}), 422)
    _problem(http.post("/v1/jobs", json={"kind": "bench", "exam": "--help"}), 400)
    job = http.post("/v1/jobs", json={"kind": "sync"}).json()["id"]
    assert http.delete(f"/v1/jobs/{job}").status_code == 200
    assert _ended(http, job)["state"] == "cancelled"
    job = http.post("/v1/jobs", json={"kind": "sync"}).json()["id"]
    assert _ended(http, job)["state"] == "finished"
    _problem(http.post("/v1/drafts/99999/publish"), 404)
    missing = http.post("/v1/jobs", json={"kind": "bench", "exam": "nonesuch"}).json()["id"]
    assert "nonesuch" in _ended(http, missing)["error"]


def test_feedback_becomes_an_exam(bank: Home, http: httpx.Client) -> None:
    from surefind.lab.exam.keeping import grow

    (hit,) = http.get("/v1/search", params={"query": "wire9 cutoff", "k": 1}).json()["hits"]
    for kind in ("up", "click"):
        assert (
            http.post("/v1/feedback", json={"query": "wire9 cutoff", "id": hit["id"], "kind": kind}).status_code == 201
        )
    _problem(http.post("/v1/feedback", json={"query": "x", "id": "0" * 16, "kind": "up"}), 404)
    _problem(http.post("/v1/feedback", json={"query": "x", "id": hit["id"], "kind": "love"}), 422)
    with bank.open() as kb:
        exam, gone = grow(kb)
        assert exam is not None and gone == 0
        (query,) = exam.queries
        assert (query.text, query.judgments[0].document, query.judgments[0].grade) == ("wire9 cutoff", "wires/09.md", 2)
        assert grow(kb)[0] == exam
    assert {"name": "feedback", "version": 1, "questions": 1} in http.get("/v1/exams").json()["exams"]
    assert http.get("/v1/exams/feedback").json()["questions"][0]["query"] == "wire9 cutoff"


# ---------------------------------------------------------------- other sites, odd requests


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_pages_of_other_sites_cannot_change_anything(http: httpx.Client, headers: dict[str, str]) -> None:
    _problem(http.post("/v1/documents", params={"name": "x.md"}, content=b"text", headers=headers), 403)


def test_another_host_name_is_refused(http: httpx.Client) -> None:
    _problem(http.get("/v1/search", params={"query": "x"}, headers={"Host": "evil.example"}), 421)


def test_a_request_id_is_passed_on_if_it_is_sane(http: httpx.Client) -> None:
    assert http.get("/healthz", headers={"X-Request-Id": "abc-1"}).headers["x-request-id"] == "abc-1"
    assert http.get("/healthz", headers={"X-Request-Id": "a b" * 100}).headers["x-request-id"] != "a b" * 100


def test_figures_for_prometheus(http: httpx.Client) -> None:
    http.get("/v1/search", params={"query": "wire1"})
    text = http.get("/metrics").text
    assert 'surefind_requests_total{method="GET",route="/v1/search",status="200"}' in text
    assert "surefind_generation" in text and "wire1" not in text
    assert http.get("/readyz").json() == {"status": "ready"}


_RAW = [
    b"GET / HTTP/9.9\r\n\r\n", b"\x00\xff\xfe\r\n\r\n",
    b"GET /v1/search?query=%zz%ff HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
    b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n\xff\xfe{",
    b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /v1/search?query=" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"TRACE /v1/search HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /v1/search HTTP/1.1\r\n\r\n",
]  # fmt: skip


@pytest.mark.parametrize("raw", _RAW, ids=range(len(_RAW)))
def test_broken_http_is_refused_and_the_server_lives(server: Served, http: httpx.Client, raw: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=3) as line:
        line.sendall(raw)
        line.shutdown(socket.SHUT_WR)
        answer = b""
        while part := line.recv(65_536):
            answer += part
    assert b" 5" not in answer[8:11] and b"Traceback" not in answer
    assert http.get("/healthz").status_code == 200


def test_a_deeply_nested_body_is_refused(http: httpx.Client) -> None:
    answer = http.post("/v1/search", content=b"[" * 100_000, headers={"Content-Type": "application/json"})
    assert 400 <= answer.status_code < 500


def test_many_readers_and_a_writer(bank: Home, server: Served) -> None:
    """Every answer is whole and of one generation while documents change."""
    wrong: list[str] = []
    ends = time.monotonic() + 3

    def read() -> None:
        with server.client() as http:
            while time.monotonic() < ends:
                answer = http.get("/v1/search", params={"query": "cutoff zebra", "k": 20})
                if answer.status_code != 200 or "zebra" in str(answer.json()["hits"]):
                    wrong.append(answer.text)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for n in range(4):
        bank.write("docs/changing.md", f"cutoff number {n}")
        bank.sync("docs")
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_stop_ends_running_requests_first(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = a_bank(Home(tmp_path_factory.mktemp("stop")))
    with serving(home.folder, forked=False) as server:
        codes: list[int] = []

        def read() -> None:
            with server.client() as http:
                try:
                    while True:
                        codes.append(http.get("/v1/search", params={"query": f"wire{len(codes)}"}).status_code)
                except httpx.TransportError:
                    return  # the connection was closed between two requests

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        while len(codes) < 8:
            time.sleep(0.05)
        server.process.terminate()
        assert server.process.wait(20) in (0, -15)
        for thread in threads:
            thread.join()
        assert set(codes) == {200} and len(codes) >= 8


def test_a_server_without_callers_stays_on_this_machine(bank: Home) -> None:
    words = [sys.executable, "-m", "surefind", "serve", "--kb", str(bank.folder), "--host", "0.0.0.0", "--port", "0"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=30)
    assert ran.returncode == 2 and "surefind keys create" in ran.stderr


def test_an_empty_folder_is_reported_before_the_server_starts(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "surefind", "serve", "--kb", str(tmp_path)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=30)
    assert ran.returncode == 3 and "surefind sync" in ran.stderr


def test_the_server_says_that_it_is_open(server: Served) -> None:
    assert "Open to every user of this machine" in server.log.read_text()


def test_python_and_http_agree_after_changes(bank: Home, http: httpx.Client) -> None:
    with KnowledgeBase.open(bank.folder) as kb:
        for _ in range(100):  # the server opens a new generation while it answers from the one before
            if http.get("/v1/search", params={"query": "wire1"}).json()["generation"] == kb.reader().generation:
                break
            time.sleep(0.05)
        for query in ("wire1", "cutoff", "number"):
            wanted = [hit.id for hit in kb.search(query, Access.public(), 10).hits]
            assert [hit["id"] for hit in http.get("/v1/search", params={"query": query}).json()["hits"]] == wanted


def test_odd_metadata_and_odd_queries_do_not_break_an_answer(bank: Home, server: Served) -> None:
    bank.write("docs/odd.md", "---\nlarge: 123456789012345678901234567890\nnan: .nan\n---\n# Odd\n\nAn oddity: 漢字.")
    bank.sync("docs")
    with server.client() as http:
        for _ in range(100):
            answer = http.get("/v1/search", params={"query": "oddity"})
            if answer.json()["hits"]:
                break
            time.sleep(0.05)
        hit = answer.json()["hits"][0]
        assert hit["metadata"]["large"] == 123456789012345678901234567890 and "漢字" in hit["text"]
        assert hit["metadata"]["nan"] == "NaN" and http.get("/v1/documents/odd.md").status_code == 200
        headers = {"Content-Type": "application/json"}
        half = http.post("/v1/search", content=b'{"query": "wire7 \\ud800 cutoff"}', headers=headers)
        assert half.status_code == 422, "half of a character is no text"
