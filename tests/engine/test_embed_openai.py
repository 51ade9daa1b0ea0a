"""`openai(…)` against a real server on the loopback that speaks `/embeddings` and misbehaves on demand."""

from __future__ import annotations

import hashlib
import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import Home
from surefind.base import spec
from surefind.base.errors import MissingPartError, SpecError, SurefindError, UsageError
from surefind.engine.embed.openai import OpenAI, _address
from surefind.engine.net import endpoint as endpoint_module
from surefind.engine.net.batches import batches, quote, sendable, unit_rows
from surefind.engine.net.trust import bearer, is_local
from surefind.engine.services import LocalServices
from surefind.engine.store.vectors import CachedEmbedder, VectorCache
from surefind.testing import check_embedder, check_stage

pytest.importorskip("httpx")

KEY = "sk-very-secret-0123456789"
WIDTH = 8


def vector(text: str, width: int = WIDTH) -> list[float]:
    """Of any length but one, and the same for the same text."""
    digest = hashlib.sha256(text.encode()).digest()
    return [byte / 8 - 15.9 for byte in digest[:width]]


def unit(text: str, width: int = WIDTH) -> Any:
    numbers = np.array(vector(text, width))
    return (numbers / np.linalg.norm(numbers)).astype(np.float32)


class Server(ThreadingHTTPServer):
    """Does what `script` says, one word for each request, and behaves when it has run out."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.times: list[float] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def stage(self, **parameters: Any) -> OpenAI:
        return OpenAI(**{"model": "toy", "url": self.url, "timeout": 5.0, **parameters})

    @property
    def texts(self) -> list[str]:
        return [text for body in self.bodies for text in body["input"]]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.bodies.append(body)
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        self.server.paths.append(self.path)
        self.server.times.append(time.monotonic())
        act = self.server.script.pop(0) if self.server.script else "good"
        width = body.get("dimensions", WIDTH)
        rows = [{"index": i, "embedding": vector(text, width)} for i, text in enumerate(body["input"])]
        getattr(self, f"act_{act}", self.act_status)(rows, act)

    def answer(self, content: Any, status: int = 200, kind: str = "application/json", **headers: str) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def act_good(self, rows: list[Any], act: str) -> None:
        self.answer({"object": "list", "data": rows, "model": "toy"})

    def act_shuffled(self, rows: list[Any], act: str) -> None:
        self.answer({"data": rows[::-1]})

    def act_unnumbered(self, rows: list[Any], act: str) -> None:
        self.answer({"data": [{"embedding": row["embedding"]} for row in rows]})

    def act_twice(self, rows: list[Any], act: str) -> None:
        self.answer({"data": [{**row, "index": 0} for row in rows]})

    def act_short(self, rows: list[Any], act: str) -> None:
        self.answer({"data": rows[1:]})

    def act_nan(self, rows: list[Any], act: str) -> None:
        rows[0]["embedding"][0] = float("nan")
        self.answer({"data": rows})

    def act_null(self, rows: list[Any], act: str) -> None:
        self.answer({"data": [{**row, "embedding": None} for row in rows]})

    def act_ragged(self, rows: list[Any], act: str) -> None:
        rows[0]["embedding"].append(1.0)
        self.answer({"data": rows})

    def act_zeros(self, rows: list[Any], act: str) -> None:
        self.answer({"data": [{**row, "embedding": [0.0] * WIDTH} for row in rows]})

    def act_narrow(self, rows: list[Any], act: str) -> None:
        self.answer({"data": [{**row, "embedding": row["embedding"][:4]} for row in rows]})

    def act_malformed(self, rows: list[Any], act: str) -> None:
        self.answer(b'{"data": [', 200)

    def act_html(self, rows: list[Any], act: str) -> None:
        self.answer(b"<html><h1>Sign in</h1></html>", 200, "text/html")

    def act_plain(self, rows: list[Any], act: str) -> None:
        self.answer({"data": rows}, 200, "text/plain")

    def act_other(self, rows: list[Any], act: str) -> None:
        self.answer({"choices": []})

    def act_hang(self, rows: list[Any], act: str) -> None:
        self.server.over.wait(60)
        self.close_connection = True

    def act_drop(self, rows: list[Any], act: str) -> None:
        self.close_connection = True

    def act_limit(self, rows: list[Any], act: str) -> None:
        self.answer({"error": {"message": "slow down"}}, 429, retry_after="0.3")

    def act_date(self, rows: list[Any], act: str) -> None:
        self.answer({"error": {"message": "slow down"}}, 429, retry_after=formatdate(time.time() - 5, usegmt=True))

    def act_tomorrow(self, rows: list[Any], act: str) -> None:
        self.answer({"error": {"message": "daily limit"}}, 429, retry_after="86400")

    def act_quota(self, rows: list[Any], act: str) -> None:
        self.answer({"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}, 429)

    def act_echo(self, rows: list[Any], act: str) -> None:
        self.answer({"error": {"message": "x" * 180 + " bad header " + str(self.headers["authorization"])}}, 401)

    def act_echo_page(self, rows: list[Any], act: str) -> None:
        self.answer(str(self.headers["authorization"]).encode(), 200, "text/plain")

    def act_status(self, rows: list[Any], act: str) -> None:
        self.answer({"error": {"message": f"this is {act}"}}, int(act))

    def log_message(self, format_: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield made
        made.over.set()
        made.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, and a proxy that must not be asked about the loopback; no waiting between tries."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    monkeypatch.setattr(endpoint_module, "_FIRST_WAIT_SECONDS", 0.01)


def failure(stage: OpenAI, texts: tuple[str, ...] = ("a", "b")) -> str:
    with pytest.raises(SurefindError) as caught:
        stage.embed(texts)
    return str(caught.value)


# ---------------------------------------------------------------- vectors


def test_contract(server: Server) -> None:
    check_embedder(server.stage())
    check_stage(server.stage())


def test_contract_with_dimensions_and_small_batches(server: Server) -> None:
    check_embedder(server.stage(dimensions=5, batch=2))
    assert all(body["dimensions"] == 5 for body in server.bodies)


def test_vectors_are_of_unit_length_and_in_order(server: Server) -> None:
    texts = ["one", "two", "three"]
    assert np.allclose(server.stage().embed(texts), [unit(text) for text in texts], atol=1e-6)
    assert server.bodies == [{"model": "toy", "input": texts}]
    assert server.paths == ["/v1/embeddings"]


@pytest.mark.parametrize("act", ["shuffled", "unnumbered", "plain"])
def test_harmless_habits_of_servers_are_taken(server: Server, act: str) -> None:
    server.script = [act]
    assert np.allclose(server.stage().embed(["a", "b"]), [unit("a"), unit("b")], atol=1e-6)


def test_dimension_is_learnt_from_the_first_answer(server: Server) -> None:
    stage = server.stage()
    stage.embed(["a"])
    assert (stage.dimension, len(server.bodies)) == (WIDTH, 1)


def test_dimension_asked_first_sends_one_word(server: Server) -> None:
    assert server.stage().dimension == WIDTH
    assert server.texts == ["dimension"]


def test_given_dimensions_need_no_request(server: Server) -> None:
    assert server.stage(dimensions=4).dimension == 4
    assert server.bodies == []


def test_batches_by_count_with_progress(server: Server) -> None:
    seen: list[tuple[int, int]] = []
    server.stage(batch=2).embed(list("abcde"), lambda done, total: seen.append((done, total)))
    assert [body["input"] for body in server.bodies] == [["a", "b"], ["c", "d"], ["e"]]
    assert seen == [(2, 5), (4, 5), (5, 5)]


def test_batches_by_characters() -> None:
    assert list(batches(["aa", "bb", "c", "dddddd", "e"], 10, 4)) == [["aa", "bb"], ["c"], ["dddddd"], ["e"]]


def test_long_texts_are_cut_and_odd_ones_sent_whole(server: Server) -> None:
    server.stage(max_characters=3).embed(["abcdef", "", "  ", "\ud800"])
    assert server.texts == ["abc", ".", ".", "?"]


@pytest.mark.parametrize("rows", [[[1.0], [1.0, 2.0]], [["x"]], [[0.0, 0.0]], [], [None], [1.0], [[float("inf")]], "x"])
def test_what_is_no_table_of_numbers_is_none(rows: Any) -> None:
    assert unit_rows(rows) is None


def test_unit_rows_of_extreme_numbers() -> None:
    rows = unit_rows([[3e300, 4e300], [3e-300, 4e-300]])
    assert rows is not None
    assert np.allclose(rows, [[0.6, 0.8], [0.6, 0.8]])


# ---------------------------------------------------------------- retries and limits


@pytest.mark.parametrize("script", [["500", "503"], ["limit"], ["date"], ["drop"], ["408"]])
def test_passing_trouble_is_tried_again(server: Server, script: list[str]) -> None:
    server.script = list(script)
    assert np.allclose(server.stage().embed(["a"]), [unit("a")], atol=1e-6)
    assert len(server.bodies) == len(script) + 1


def test_retry_after_is_honoured(server: Server) -> None:
    server.script = ["limit"]
    server.stage().embed(["a"])
    assert server.times[1] - server.times[0] >= 0.3


def test_hanging_server_is_left_and_asked_again(server: Server) -> None:
    server.script = ["hang"]
    assert server.stage(timeout=1.5).embed(["a"]).shape == (1, WIDTH)


def test_tries_are_bounded_and_the_error_says_so(server: Server) -> None:
    server.script = ["500"] * 9
    message = failure(server.stage(retries=2))
    assert message.startswith(f"{server.url}/embeddings answered 500 (this is 500) after 3 tries. ")
    assert "Run it again later" in message
    assert len(server.bodies) == 3


def test_hanging_server_ends_in_an_error_that_names_the_timeout(server: Server) -> None:
    server.script = ["hang", "hang"]
    message = failure(server.stage(timeout=0.2, retries=1))
    assert "did not answer within 0.2 s after 2 tries. Raise timeout" in message


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        ("tomorrow", "answered 429 (daily limit) and asks to wait 86400 s. Set requests_per_minute"),
        ("quota", "answered 429 (You exceeded your quota). The account has no credit left."),
        ("400", "answered 400 (this is 400). Check model; lower batch or max_characters;"),
        ("404", "answered 404 (this is 404). Check url and model."),
        ("302", "answered 302 (this is 302). Check url and model."),
        ("malformed", "did not answer with JSON but with application/json: '{\"data\": ['. Check that url"),
        ("html", "did not answer with JSON but with text/html: '<html><h1>Sign in</h1></html>'. Check that url"),
        ("other", "(model toy) gave JSON without embeddings. Check that url"),
        ("short", "(model toy) gave 1 vectors for 2 texts. Lower batch."),
        ("twice", "(model toy) numbered its vectors wrongly."),
        ("nan", "(model toy) gave vectors that are not lists of finite numbers. Check model"),
        ("null", "(model toy) gave vectors that are not lists of finite numbers."),
        ("ragged", "(model toy) gave vectors that are not lists of finite numbers."),
        ("zeros", "(model toy) gave vectors that are not lists of finite numbers."),
    ],
)
def test_bad_answer_is_told_at_once(server: Server, act: str, expected: str) -> None:
    server.script = [act]
    assert f"{server.url}/embeddings {expected}" in failure(server.stage())
    assert len(server.bodies) == 1


def test_vectors_that_change_their_length_are_refused(server: Server) -> None:
    stage = server.stage()
    stage.embed(["a"])
    server.script = ["narrow"]
    assert "gave vectors of 4 numbers instead of 8" in failure(stage)
    server.script = ["narrow"]
    assert "Leave dimensions at 0." in failure(server.stage(dimensions=6))


def closed_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_refused_connection_is_told_at_once() -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    started = time.monotonic()
    message = failure(OpenAI(url=url, retries=5))
    assert message.startswith(f"{url}/embeddings cannot be reached (")
    assert "Is the server running" in message
    assert "tries" not in message
    assert time.monotonic() - started < 30


def test_server_that_went_away_is_tried_again(server: Server) -> None:
    stage = server.stage(retries=2)
    stage.embed(["a"])
    server.shutdown()
    server.server_close()
    server.script = ["drop"]  # by the thread that still holds the connection
    message = failure(stage)
    assert "cannot be reached" in message
    assert "after 3 tries" in message


def test_requests_per_minute(server: Server) -> None:
    stage = server.stage(batch=1, requests_per_minute=600)
    stage.embed(["the first one opens the connection"])
    started = time.monotonic()
    stage.embed(["a", "b", "c", "d"])
    assert time.monotonic() - started > 0.25


# ---------------------------------------------------------------- keys


def test_key_comes_from_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = server.stage(key_env="SUREFIND_KEY")
    stage.embed(["a"])
    monkeypatch.setenv("SUREFIND_KEY", f"{KEY}\n")
    stage.embed(["b"])
    assert "authorization" not in server.headers[0]
    assert server.headers[1]["authorization"] == f"Bearer {KEY}"


def test_missing_key_names_the_variable() -> None:
    with pytest.raises(UsageError, match="the environment variable VOYAGE_API_KEY is not set"):
        OpenAI(url="https://api.voyageai.com/v1", key_env="VOYAGE_API_KEY").embed(["a"])


@pytest.mark.parametrize("key", ["sk-\x00secret", "schlüssel", "sk-a\nb"])
def test_key_that_cannot_be_sent_is_refused_unseen(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setattr("os.environ", {"OPENAI_API_KEY": key})
    message = failure(OpenAI())
    assert "OPENAI_API_KEY holds characters that no key has" in message
    assert key not in message


@pytest.mark.parametrize(
    "parameters",
    [
        {"key_env": KEY},
        {"key_env": "AIzaSyVerySecret"},
        {"url": f"https://user:{KEY}@api.openai.com/v1"},
        {"url": f"https://api.openai.com/v1?key={KEY}"},
        {"url": f"https://api.openai.com/v1#{KEY}"},
    ],
)
def test_spec_takes_no_secrets(parameters: dict[str, Any]) -> None:
    with pytest.raises(SpecError) as caught:
        OpenAI(**parameters)
    assert "ecret" not in str(caught.value)


def test_key_appears_nowhere(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    services = LocalServices(tmp_path / "cache")
    stage = server.stage(retries=1)
    services.embedder(str(stage)).embed(["a", "b"])
    services.close()
    assert server.headers[0]["authorization"].endswith(KEY)
    server.script = ["echo", "echo_page", "500", "500", "malformed"]
    errors = []
    for _ in range(4):
        with pytest.raises(SurefindError) as caught:
            stage.embed(["c"])
        errors += [str(caught.value), repr(caught.value), str(caught.value.__cause__)]
    assert "[key]" in errors[3]
    shown = [repr(stage), str(stage), stage.fingerprint, caplog.text, *errors]
    assert [text for text in shown if "secret" in text or KEY[:12] in text] == []
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


# ---------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1/embeddings"),
        ("http://localhost:11434/v1/", "http://localhost:11434/v1/embeddings"),
        ("http://localhost:8000/v1/embeddings", "http://localhost:8000/v1/embeddings"),
        (
            "https://me.openai.azure.com/openai/deployments/small?api-version=2024-10-21",
            "https://me.openai.azure.com/openai/deployments/small/embeddings?api-version=2024-10-21",
        ),
    ],
)
def test_address(url: str, address: str) -> None:
    assert _address(OpenAI(url=url).url) == address


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:1/v1", True),
        ("http://127.0.0.1", True),
        ("http://[::1]:8000", True),
        ("https://127.example.com", False),
        ("http://192.168.0.4", False),
    ],
)
def test_local_addresses(url: str, local: bool) -> None:
    assert is_local(url) == local


def test_azure_gets_its_own_header() -> None:
    assert bearer("https://me.openai.azure.com/openai/v1/embeddings", KEY) == {
        "Authorization": f"Bearer {KEY}",
        "api-key": KEY,
    }


@pytest.mark.parametrize(
    "text",
    [
        "openai(url=api.openai.com)",
        "openai(batch=0)",
        "openai(timeout=0)",
        "openai(retries=-1)",
        "openai(dimensions=-1)",
        'openai(model="")',
    ],
)
def test_bad_parameter_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match=r"must b"):
        spec.make("embed", text)


def test_fingerprint_tells_what_changes_the_vectors() -> None:
    base = OpenAI()
    same = [base.replace(batch=1), base.replace(price_per_million=1), base.replace(timeout=1), base.replace(retries=0)]
    other = [
        base.replace(model="x"),
        base.replace(url="http://localhost"),
        base.replace(dimensions=256),
        base.replace(max_characters=9),
    ]
    assert {stage.fingerprint for stage in same} == {base.fingerprint}
    assert len({stage.fingerprint for stage in (base, *other)}) == 5


def test_missing_extra_names_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingPartError, match=r"pip install 'surefind\[openai\]'"):
        OpenAI(model="without-httpx", url="http://localhost:1").embed(["a"])


# ---------------------------------------------------------------- price and cache


def test_cost_is_quoted_without_sending(server: Server) -> None:
    texts = ["x" * 3500] * 1000
    assert server.stage(price_per_million=0.13).cost(texts) == pytest.approx(0.13)
    assert server.stage(price_per_million=0).cost(texts) == 0
    assert server.stage(max_characters=350).cost(texts) == pytest.approx(0.002)
    assert quote(["東京" * 7], 1e6) == 12  # 42 bytes
    assert server.bodies == []


def test_interrupted_job_keeps_what_was_paid_for(server: Server, tmp_path: Path) -> None:
    """512 texts are embedded between two commits: the third block fails, the first two are not sent again."""
    texts = [f"text {i:04}" for i in range(1200)]
    stage = server.stage(batch=256, retries=0, dimensions=WIDTH)
    server.script = ["good"] * 4 + ["500"]
    cache = VectorCache(tmp_path / "vectors.db")
    with pytest.raises(SurefindError, match="answered 500"):
        CachedEmbedder(stage, cache).embed(texts)
    cache.close()
    server.bodies.clear()
    again = VectorCache(tmp_path / "vectors.db")
    vectors = CachedEmbedder(stage, again).embed(texts)
    again.close()
    assert len(server.texts) == 1200 - 1024
    assert np.allclose(vectors, [unit(text) for text in texts], atol=1e-4)  # vectors are kept in 16 bits a number


def test_sendable_is_not_blank() -> None:
    assert sendable("\n\t", 10) == "."
    assert sendable(" a ", 10) == " a "


# ---------------------------------------------------------------- in a knowledge base


def test_knowledge_base_syncs_searches_and_outlives_a_failure(server: Server, home: Home) -> None:
    home.configure(f"""
[search]
pipeline = "near"

[pipelines.near]
retrieve = ["dense(model={server.stage(retries=0)})"]
""")
    for name in "abc":
        home.write(f"docs/{name}.md", f"passage {name}")
    home.sync("docs")
    sent = {text[-1]: text for text in server.texts}  # with its title before it
    assert home.found(sent["b"])[0] == "b.md"
    home.write("docs/d.md", "passage d", age=0)
    server.script = ["500"]
    with pytest.raises(SurefindError, match="answered 500"):
        home.sync("docs")
    assert home.found(sent["b"])[0] == "b.md"
    server.bodies.clear()
    home.sync("docs")
    assert [text[-1] for text in server.texts] == ["d"]
    assert home.found(server.texts[0])[0] == "d.md"
