"""Nobody is asked for a body, or given a stream, before the server knows who calls."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route

from cases import each
from helpers import Home
from http_helpers import SETTINGS, Rights, Served, a_bank, serving
from surefind.doors.server import create_app

STREAM = {"Accept": "application/json, text/event-stream"}
LIMITS = "\n[serve]\nqueue = 4\nstreams = 5\nstreams_per_caller = 3\n"
FRAMINGS = ("Content-Length: 200000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n")


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = a_bank(Home(tmp_path_factory.mktemp("bodies")))
    home.configure(SETTINGS + LIMITS)
    return home


@pytest.fixture(scope="module")
def rights() -> Rights:
    return {"reader": (["read"], []), "writer": (["write"], []), "other": (["read"], [])}


def _routes(routes: Any) -> Iterator[tuple[str, str]]:
    """Yields the method and the path of every route that may take a body, those of included routers, too."""
    for route in routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from _routes(inner.routes)
        elif isinstance(route, Route):
            for method in sorted((route.methods or {"POST"}) - {"GET", "HEAD", "OPTIONS"}):
                yield method, re.sub(r"\{[^}]*\}", "1", route.path)


def _status(server: Served, method: str, path: str, framing: str, key: str = "") -> int:
    """Sends the head of a request and none of its body, and returns the status that comes nevertheless."""
    who = f"Authorization: Bearer {key}\r\n" if key else ""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sent:
        sent.sendall(
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=x\r\n"
            f"{who}{framing}".encode()
        )
        return int(sent.recv(4096).split()[1])


def test_a_stranger_is_refused_before_a_body_is_read(server: Served, bank: Home) -> None:
    """On every route, so that new ones are included without editing this test."""
    with bank.open() as kb:
        found = set(_routes(create_app(kb)._app.routes))  # type: ignore[attr-defined]
    assert {("POST", "/drafts/new"), ("POST", "/v1/documents"), ("PUT", "/v1/drafts/1"), ("POST", "/mcp")} <= found
    wrong = {}
    for method, path in sorted(found - {("POST", "/sign-in")}):
        for framing in FRAMINGS:
            status = _status(server, method, path, framing)
            if status != 401:
                wrong[method, path, framing] = status
    assert not wrong


@each(
    "path", ["/drafts/new", "/drafts/preview", "/drafts/chunks", "/drafts/1/save", "/drafts/1/upload", "/v1/documents"]
)
@each("framing", FRAMINGS)
def test_who_may_not_upload_is_refused_before_the_file_is_read(
    server: Served, keys: dict[str, str], path: str, framing: str
) -> None:
    assert _status(server, "POST", path, framing, keys["reader"]) == 403


def test_files_of_strangers_are_not_on_the_disk(server: Served) -> None:
    """The form of a stranger is spooled nowhere, also while the connection stays open."""
    form = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\n' + b"a" * 4_000_000
    head = f"POST /drafts/new HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(form) + 9}\r\n"
    pid = server.process.pid
    with ExitStack() as stack:
        for _ in range(3):
            sent = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=10))
            sent.sendall(head.encode() + b"Content-Type: multipart/form-data; boundary=x\r\n\r\n" + form)
            assert sent.recv(4096).split()[1] == b"401"
        spooled = [file for file in Path(f"/proc/{pid}/fd").iterdir() if "(deleted)" in str(file.readlink())]
        assert not spooled


def test_a_known_caller_sends_bodies_as_before(server: Served, keys: dict[str, str]) -> None:
    with server.client(keys["writer"]) as http:
        assert http.post("/v1/documents?name=a.md", content=b"# A text").status_code == 201
        assert http.post("/drafts/new", files={"file": ("b.md", b"# B text")}).status_code == 303
        assert http.post("/v1/search", json={"query": "wire7"}).status_code == 200
        assert http.post("/sign-in", data={"key": "wrong"}).status_code == 401
        assert http.post("/sign-in", data={"key": keys["writer"]}).status_code == 303


def test_a_request_with_a_body_counts_once(home: Home) -> None:
    """The guard and the route both ask who calls."""
    home.configure(SETTINGS + "\n[serve]\nrequests_per_minute = 3\n")
    home.write("docs/wire.md", "# Wire\n\nThe cutoff of wires is 3 pm.\n")
    home.sync("docs")
    with serving(home.folder) as server, server.client() as http:
        found = [http.post("/v1/search", json={"query": "wire"}).status_code for _ in range(4)]
    assert found == [200, 200, 200, 429]


def test_idle_streams_keep_nobody_else_from_being_answered(server: Served, keys: dict[str, str]) -> None:
    with ExitStack() as stack:
        clients = {name: stack.enter_context(server.client(key)) for name, key in keys.items()}

        def stream(who: str) -> int:
            return stack.enter_context(clients[who].stream("GET", "/mcp", headers=STREAM)).status_code

        assert [stream("reader") for _ in range(5)] == [200, 200, 200, 429, 429]
        assert [stream("writer") for _ in range(3)] == [200, 200, 429]
        for who in ("reader", "other"):
            assert clients[who].get("/healthz").status_code == 200
            assert clients[who].get("/v1/search?query=wire7").status_code == 200
        told = clients["reader"].get("/mcp", headers=STREAM).json()["detail"]
        assert "3 streams" in told and "streams_per_caller" in told
    with server.client(keys["reader"]) as http:
        for _ in range(200):
            with http.stream("GET", "/mcp", headers=STREAM) as again:
                if again.status_code == 200:
                    return
            time.sleep(0.05)
    raise AssertionError("the places of closed streams were not given back")
