"""`bedrock(…)` through boto3 against a real server on the loopback that speaks Bedrock's InvokeModel."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

from surefind.base import running, spec
from surefind.base.errors import MissingPartError, SpecError, SurefindError, UsageError
from surefind.base.running import BoundedCache, close_shared
from surefind.engine.embed.bedrock import Bedrock
from surefind.engine.store.vectors import CachedEmbedder, VectorCache
from surefind.testing import check_embedder, check_stage

pytest.importorskip("boto3")

SECRET = "very-secret-access-key"
ERRORS = {
    "AccessDeniedException": 403,
    "InternalServerException": 500,
    "ResourceNotFoundException": 404,
    "ThrottlingException": 429,
    "ValidationException": 400,
}


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.lock = threading.Lock()
        self.now = self.most = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.server.lock:
            self.server.bodies.append(body)
            self.server.paths.append(unquote(self.path))
            self.server.now += 1
            self.server.most = max(self.server.most, self.server.now)
            act = self.server.script.pop(0) if self.server.script else "good"
        try:
            self.act(act, body)
        finally:
            with self.server.lock:
                self.server.now -= 1

    def act(self, act: str, body: dict[str, Any]) -> None:
        numbers = np.frombuffer(hashlib.shake_128(body["inputText"].encode()).digest(body["dimensions"]), np.uint8)
        vector = (numbers / 8 - 15.9).tolist()
        if act in ERRORS:
            self.answer({"message": f"this is {act}"}, ERRORS[act], act)
        elif act == "malformed":
            self.answer(b'{"embedding": [', 200)
        else:
            answers: dict[str, Any] = {
                "good": {"embedding": vector, "inputTextTokenCount": 3},
                "short": {"embedding": vector[1:]},
                "nan": {"embedding": [float("nan"), *vector[1:]]},
                "other": {"message": "?"},
            }
            self.answer(answers[act])

    def answer(self, content: Any, status: int = 200, error: str = "") -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        if error:
            self.send_header("x-amzn-ErrorType", error)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format_: str, *args: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", f"http://127.0.0.1:{made.server_port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(running, "_shared", BoundedCache(8))
    yield
    close_shared()


def stage(**parameters: Any) -> Bedrock:
    return Bedrock(**{"region": "us-east-1", "dimensions": 256, "timeout": 5.0, "retries": 0, **parameters})


def failure(embedder: Bedrock) -> str:
    with pytest.raises(SurefindError) as caught:
        embedder.embed(["a"])
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_contract(server: Server) -> None:
    check_embedder(stage())
    check_stage(stage())
    check_stage(Bedrock())


def test_request_is_titan_s(server: Server) -> None:
    stage(normalize=False).embed(["cash"])
    assert server.bodies == [{"inputText": "cash", "dimensions": 256, "normalize": False}]
    assert server.paths == ["/model/amazon.titan-embed-text-v2:0/invoke"]


def test_a_call_that_has_the_client_in_hand_goes_on_when_it_is_closed(server: Server) -> None:
    """Another knowledge base of this process may be closed at any time."""
    texts = [f"text {i}" for i in range(12)]
    alone = stage().embed(texts)
    closing = stage(concurrency=2).embed(texts, lambda done, total: close_shared())
    assert np.array_equal(alone, closing)


def test_order_is_kept_with_bounded_calls_at_once(server: Server) -> None:
    texts = [f"text {i}" for i in range(40)]
    seen: list[tuple[int, int]] = []
    many = stage(concurrency=3).embed(texts, lambda done, total: seen.append((done, total)))
    alone = stage(concurrency=1).embed(texts)
    assert np.array_equal(many, alone)
    assert server.most <= 3
    assert seen[-1] == (40, 40)


@pytest.mark.parametrize("act", ["ThrottlingException", "InternalServerException"])
def test_passing_trouble_is_tried_again(server: Server, act: str) -> None:
    server.script = [act]
    assert stage(retries=2).embed(["a"]).shape == (1, 256)
    assert len(server.bodies) == 2


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        ("AccessDeniedException", "Ask for access to this model"),
        ("ResourceNotFoundException", "Check model and region."),
        ("ThrottlingException", "Lower concurrency."),
        ("ValidationException", "Check model, dimensions"),
        ("InternalServerException", "Try again later."),
    ],
)
def test_refusal_says_what_to_do(server: Server, act: str, expected: str) -> None:
    server.script = [act]
    message = failure(stage())
    assert "amazon.titan-embed-text-v2:0" in message
    assert f"this is {act}" in message
    assert expected in message


@pytest.mark.parametrize("act", ["short", "nan", "other", "malformed"])
def test_bad_answer_is_told(server: Server, act: str) -> None:
    server.script = [act]
    assert "gave no vector of 256 finite numbers" in failure(stage())


def test_failure_stops_the_texts_that_wait(server: Server) -> None:
    server.script = ["ValidationException"] * 500
    with pytest.raises(SurefindError):
        stage(concurrency=2).embed([f"text {i}" for i in range(500)])
    assert len(server.bodies) < 50


def test_unreachable_server(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "http://127.0.0.1:9")
    assert "did not answer" in failure(stage())


def test_missing_credentials(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(UsageError, match=r"Bedrock needs AWS credentials: .* Run aws configure"):
        stage().embed(["a"])


def test_missing_region() -> None:
    with pytest.raises(UsageError, match=r"Write it like 'bedrock\(region=us-east-1\)'"):
        Bedrock().embed(["a"])


def test_unknown_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nonesuch")
    with pytest.raises(UsageError, match="nonesuch"):
        stage().embed(["a"])


def test_missing_extra_names_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(MissingPartError, match=r"pip install 'surefind\[bedrock\]'"):
        stage().embed(["a"])


def test_cached_texts_are_not_paid_twice(server: Server, tmp_path: Path) -> None:
    cache = VectorCache(tmp_path / "vectors.db")
    cached = CachedEmbedder(stage(), cache)
    first = cached.embed(["a", "b", "a"])
    assert np.array_equal(cached.embed(["a", "b", "a"]), first)
    cache.close()
    assert len(server.bodies) == 2


def test_cost() -> None:
    assert Bedrock().cost(["x" * 3500] * 1000) == pytest.approx(0.02)


@pytest.mark.parametrize("text", ["bedrock(dimensions=0)", "bedrock(concurrency=0)", "bedrock(max_characters=60000)"])
def test_bad_parameter_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="must be"):
        spec.make("embed", text)
