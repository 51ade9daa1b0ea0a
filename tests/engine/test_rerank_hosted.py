"""`hosted(…)` against a real server on the loopback that speaks the three APIs and misbehaves on demand."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases import each
from helpers import Home, ask
from rerank_helpers import Shelf
from surefind.base import spec
from surefind.base.errors import SpecError, SurefindError, UsageError
from surefind.base.protocols import Services
from surefind.base.running import collecting
from surefind.base.types import Query
from surefind.engine.net import endpoint
from surefind.engine.rerank.hosted import Hosted
from surefind.engine.services import LocalServices
from surefind.testing import check_reranker, check_stage, rankings_of

pytest.importorskip("httpx")

KEY = "sk-canary-0123456789"
TEXTS = ["the vault", "two officers", "cash report deadline", "teller cash report", "alpha", "beta cash", "gamma"]
ROWS = [([5, 0, 3, 2], [9.0, 3.0, 2.0, 1.0]), ([4], [1.0]), ([], []), ([1, 2, 6], [3.0, 3.0, 3.0])]
QUERIES = [Query("cash report"), Query("vault"), Query("nothing"), Query("the deadline of a report")]


def shared(query: str, text: str) -> float:
    return len({*query.split()} & {*text.split()}) / 10


class Server(ThreadingHTTPServer):
    """Does what `script` says, one word for each request, and behaves when it has run out."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.over = threading.Event()

    def stage(self, **parameters: Any) -> Hosted:
        url = f"http://127.0.0.1:{self.server_port}/v1/rerank"
        return Hosted(**{"url": url, "timeout": 5.0, "model": "toy", **parameters})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.bodies.append(body)
        self.server.keys.append(self.headers.get("authorization", ""))
        rows = [
            {"index": i, "relevance_score": shared(body["query"], text)} for i, text in enumerate(body["documents"])
        ]
        rows.sort(key=lambda row: -row["relevance_score"])
        act = self.server.script.pop(0) if self.server.script else "good"
        if act == "hang":
            self.server.over.wait(30)
        elif act == "crawl":
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: ")
            with contextlib.suppress(OSError):
                while not self.server.over.wait(0.02):
                    self.wfile.write(b"x")
        elif act == "cut":
            self.answer(b'{"results": [', status=200)
        elif act == "html":
            self.answer(b"<html>maintenance</html>", kind="text/html")
        elif act.isdigit():
            self.answer(json.dumps({"message": f"no, {self.headers.get('authorization')}"}).encode(), int(act))
        else:
            name = "data" if "top_k" in body else "results"
            self.answer(json.dumps(CONTENT[act](name, rows)).encode())

    def answer(self, data: bytes, status: int = 200, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        if status == 429:
            self.send_header("retry-after", "0")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words: Any) -> None: ...


CONTENT = {
    "good": lambda name, rows: {name: rows, "usage": {"total_tokens": 1000}},
    "short": lambda name, rows: {name: rows[1:]},
    "twice": lambda name, rows: {name: [rows[0]] * len(rows)},
    "elsewhere": lambda name, rows: {name: [{**row, "index": row["index"] + 1} for row in rows]},
    "nan": lambda name, rows: {name: [{**row, "relevance_score": "NaN"} for row in rows]},
    "none": lambda name, rows: {name: [{"index": row["index"]} for row in rows]},
    "words": lambda name, rows: {"answer": "the first one"},
    "list": lambda name, rows: rows,
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(endpoint, "_FIRST_WAIT_SECONDS", 0.01)
    for name in ("COHERE_API_KEY", "JINA_API_KEY", "VOYAGE_API_KEY"):
        monkeypatch.setenv(name, KEY)
    made = Server()
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.over.set()
    made.shutdown()
    made.server_close()
    thread.join()


def rerank(stage: Hosted, services: Services | None = None, n: int = 1) -> Any:
    return stage.rerank(QUERIES[:n], rankings_of(ROWS[:n]), Shelf(*TEXTS), 10, services or LocalServices())


@pytest.mark.parametrize("api", ["cohere", "jina", "voyage"])
def test_contract(server: Server, api: Any) -> None:
    stage = server.stage(api=api)
    check_reranker(stage, QUERIES, rankings_of(ROWS), Shelf(*TEXTS))
    check_stage(stage)


def test_scores_are_blended(server: Server) -> None:
    found = rerank(server.stage())  # "cash report" shares 1, 0, 2 and 2 words with 5, 0, 3 and 2
    expected = {5: 0.5 * 1 + 0.5 * 0.5, 0: 0.5 * 2 / 8, 3: 0.5 * 1 / 8 + 0.5, 2: 0.5}
    assert found.row(0)[0].tolist() == [5, 3, 2, 0]
    assert found.row(0)[1].tolist() == pytest.approx([expected[o] for o in (5, 3, 2, 0)])


@pytest.mark.parametrize(
    ("api", "extra"),
    [("cohere", {"top_n": 4}), ("jina", {"top_n": 4, "return_documents": False}), ("voyage", {"top_k": 4})],
)
def test_request_is_what_the_api_asks_for(server: Server, api: Any, extra: dict[str, Any]) -> None:
    rerank(server.stage(api=api))
    documents = [TEXTS[i] for i in ROWS[0][0]]
    assert server.bodies == [{"model": "toy", "query": "cash report", "documents": documents, **extra}]
    assert server.keys == [f"Bearer {KEY}"]


@pytest.mark.parametrize("act", ["short", "twice", "elsewhere", "nan", "none", "words", "list", "cut", "html", "400"])
def test_misbehaviour_is_one_clear_error(server: Server, act: str) -> None:
    server.script = [act]
    with pytest.raises(SurefindError, match=r"127\.0\.0\.1") as caught:
        rerank(server.stage(retries=0))
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("act", ["429", "500", "503"])
def test_passing_trouble_is_tried_again(server: Server, act: str) -> None:
    server.script = [act, act]
    assert rerank(server.stage(retries=2)).row(0)[0].tolist() == [5, 3, 2, 0]
    assert len(server.bodies) == 3


@pytest.mark.parametrize("act", ["hang", "crawl"])
def test_slow_server_ends_with_the_timeout(server: Server, act: str) -> None:
    server.script = [act]
    with pytest.raises(SurefindError, match="did not answer within"):
        rerank(server.stage(timeout=0.2, retries=0))


def test_search_falls_back_and_says_so(server: Server, tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write("docs/a.md", "cash cash cash")
    home.write("docs/b.md", "a cash report")
    home.sync("docs")
    server.script = ["words"]
    with home.open() as kb:
        result = ask(kb, "cash", pipeline=f"bm25 >> {server.stage(retries=0)}")
        plain = ask(kb, "cash")
    assert [hit.id for hit in result.hits] == [hit.id for hit in plain.hits]
    assert result.trace[-1].note.startswith("fell back: http://127.0.0.1")


def test_what_it_costs_is_counted(server: Server) -> None:
    services = LocalServices()
    with collecting() as collected:
        rerank(server.stage(api="voyage", price=0.05), services)
    assert (collected.calls, collected.tokens_in, collected.dollars) == (1, 1000, pytest.approx(0.05 * 1000 / 1e6))
    assert services.llm.meter.spent.dollars == pytest.approx(collected.dollars)
    assert server.stage(api="cohere", price=2.0).cost_per_1k == 2.0
    assert server.stage().cost_per_1k == 0  # on this machine
    assert Hosted().cost_per_1k == 2.0


def test_a_request_is_counted_before_its_reserve_is_free(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the two, another thread could spend the same money."""
    services = LocalServices()
    meter, counted = services.llm.meter, []
    release = meter.release
    monkeypatch.setattr(meter, "release", lambda dollars: (counted.append(meter.spent.calls), release(dollars)))
    rerank(server.stage(price=2.0), services)
    assert counted == [1]


def test_benchmark_pays_for_a_pair_once_and_asks_for_many_at_once(server: Server, tmp_path: Path) -> None:
    services = LocalServices(tmp_path / "cache")
    first = rerank(server.stage(blend=0.3), services, 4)
    asked = len(server.bodies)
    second = rerank(server.stage(blend=0.3), services, 4)
    rerank(server.stage(blend=0.9), services, 4)
    assert (asked, len(server.bodies)) == (3, 3)  # the third query found nothing
    assert np.array_equal(first.ids, second.ids)
    services.close()


def test_keys_are_not_in_the_cache(server: Server, tmp_path: Path) -> None:
    services = LocalServices(tmp_path / "cache")
    rerank(server.stage(), services, 4)
    services.close()
    assert all(KEY.encode() not in path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file())


def test_missing_key_is_said_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COHERE_API_KEY", raising=False)
    with pytest.raises(UsageError, match="COHERE_API_KEY is not set"):
        rerank(Hosted())


@each(
    ("text", "words"),
    [
        ('hosted(key_env="sk-abc")', "key_env must be the name of an environment variable"),
        ('hosted(url="https://user:pw@example.org/rerank")', "must not contain a user, a password"),
        ('hosted(url="example.org")', "url must begin with https://"),
        ("hosted(api=other)", "api must be"),
        ("hosted(concurrency=0)", "concurrency must be"),
        ("hosted(price=-1)", "price must be 0 or more"),
        ("hosted(top=3, keep=4)", "keep must be from 1 to top"),
    ],
)
def test_bad_parameters(text: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        spec.make("rerank", text)
