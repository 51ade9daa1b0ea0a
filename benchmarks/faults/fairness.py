"""Measures whether one caller can keep another one waiting, route by route.

    python benchmarks/faults/fairness.py --seconds 20 --connections 60

It makes the sample's knowledge base in a temporary folder and starts a server on the loopback, with a language model
that takes ten seconds for an answer. The routes are those of the application, and their requests are made as in
tests/doors/test_route_matrix.py, so a new route is measured without a change here. For each route, one key (mallory,
who may review) sends its requests over all connections again and again: half of them wait for the answer, half close
after 20 ms. Meanwhile another key searches, each time for something new. Routes are printed with the slowest of these
searches and with how many were refused; the exit code is 1 if one took more than a second or was refused.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "doors"))

from llm_server import LLMServer, serving
from surefind.doors.auth.keys import Keys
from surefind.doors.cli.demo import sample_folder, sample_vectors
from surefind.doors.server import create_app
from surefind.kb import KnowledgeBase
from test_route_matrix import Call, _values, changes, reads

SLOW = 1.0
"""Seconds from which on a search counts as slow."""
MODEL_SECONDS = 10.0
EACH = 6
"""Requests of one route that are sent in turn, at most."""
WORST = {
    "/v1/search": {"query": "how do I send a wire", "confidence": "read", "k": 100},
    "/v1/ask": {"query": "how do I send a wire"},
}
"""What costs most, where the matrix of routes does not send it."""
TOOLS = ("search", "ask")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures whether one caller can keep another one waiting.")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--connections", type=int, default=60)
    parser.add_argument("--only", default="", help="a regular expression of routes")
    asked = parser.parse_args()
    failed = False
    with serving() as model, tempfile.TemporaryDirectory() as folder, _server(Path(folder), model) as server:
        model.delay = MODEL_SECONDS
        print(f"{'route':58} {'sent':>6} {'searches':>8} {'median':>7} {'slowest':>8} {'refused':>7}")
        for route, calls in sorted(_calls(server).items()):
            if not re.search(asked.only, route):
                continue
            sent, times, refused = asyncio.run(_attack(server, calls, asked.seconds, asked.connections))
            wrong = bool(refused) or max(times, default=asked.seconds) > SLOW
            failed = failed or wrong
            median = sorted(times)[len(times) // 2] if times else float("nan")
            row = f"{sent:6} {len(times):8} {median:6.3f}s {max(times, default=0):7.3f}s {refused:7}"
            print(f"{route:58} {row}{'  <--' if wrong else ''}", flush=True)
    sys.exit(failed)


@contextlib.contextmanager
def _server(folder: Path, model: LLMServer) -> Iterator[SimpleNamespace]:
    """Serves the sample; yields its address, keys, knowledge base and application."""
    program = [sys.executable, "-m", "surefind"]
    (folder / "surefind.toml").write_text(f'[llm]\nmodel = "{model.model}"\n', encoding="utf-8")
    with KnowledgeBase.open(folder) as kb:
        kb.services.keep_vectors(sample_vectors())
        kb.sync(sample_folder())
        number = kb.drafts.add_bytes("sop.md", b"# Wires\n\nThe cutoff is noon.\n", "sops/new.md", "mallory").number
        store = Keys(kb.data)
        keys = {name: store.create(name, scopes)[1] for name, scopes in [("mallory", ["review"]), ("reader", ["read"])]}
        log = folder / "serve.log"
        with log.open("w", encoding="utf-8") as file:
            process = subprocess.Popen([*program, "serve", "--port", "0"], cwd=folder, stdout=file, stderr=file)
        try:
            while not (address := re.search(r"on http://127\.0\.0\.1:(\d+)", log.read_text(encoding="utf-8"))):
                time.sleep(0.1)
            app: Any = create_app(kb)
            yield SimpleNamespace(port=int(address[1]), keys=keys, kb=kb, app=app._app, number=number)
        finally:
            process.terminate()
            process.wait(20)


def _calls(server: SimpleNamespace) -> dict[str, list[Call]]:
    """Returns requests of every route, by method and path."""
    values = _values(server.kb, server)
    values["number"] = [str(server.number)]
    values["document_id"] = values["document"] = ["sops/sop-301-outgoing-domestic-wire.md", "sops/new.md"]
    found: dict[str, list[Call]] = defaultdict(list)
    for call in (*reads(server.app, values), *changes(server.app, values)):
        if len(found[f"{call.method} {call.route}"]) < EACH:
            found[f"{call.method} {call.route}"].append(call)
    for path, body in WORST.items():
        found[f"POST {path}"].insert(0, Call("POST", path, path, json=body))
        if path == "/v1/ask":
            found[f"POST {path}, streaming"] = [Call("POST", path, path, json=body | {"stream": True})]
    for tool in TOOLS:
        call = {"name": tool, "arguments": {"query": "how do I send a wire"}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        found[f"POST /mcp, {tool}"] = [Call("POST", "/mcp", "/mcp", json=body)]
    return found


async def _attack(
    server: SimpleNamespace, calls: Sequence[Call], seconds: float, connections: int
) -> tuple[int, list[float], int]:
    """Returns how many requests mallory sent, the seconds of each search of the reader, and how many were refused."""
    end, sent = time.monotonic() + seconds, 0
    raw = [_request(server, call) for call in calls]

    async def mallory(place: int) -> None:
        nonlocal sent
        turn = place
        while time.monotonic() < end:
            with contextlib.suppress(OSError, TimeoutError):
                incoming, outgoing = await asyncio.open_connection("127.0.0.1", server.port)
                try:
                    outgoing.write(raw[turn % len(raw)])
                    sent += 1
                    wait = max(0.02, end - time.monotonic()) if place % 2 else 0.02
                    async with asyncio.timeout(wait):
                        await incoming.read()
                finally:
                    outgoing.close()
            turn += 1
            await asyncio.sleep(0.02)

    times: list[float] = []
    refused = 0

    async def reader() -> None:
        nonlocal refused
        headers = {"Authorization": f"Bearer {server.keys['reader']}"}
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", headers=headers, timeout=60) as client:
            while time.monotonic() < end:
                began = time.perf_counter()
                query = f"wire cutoff {len(times)} {os.getpid()} {began}"
                answer = await client.get("/v1/search", params={"query": query, "confidence": "quick"})
                times.append(time.perf_counter() - began)
                refused += answer.status_code != 200
                await asyncio.sleep(0.05)

    await asyncio.gather(reader(), *(mallory(place) for place in range(connections)))
    return sent, times, refused


def _request(server: SimpleNamespace, call: Call) -> bytes:
    """Returns the bytes of a request, after which the server closes the connection."""
    body, kind = call.content or b"", "application/octet-stream"
    if call.json is not None:
        body, kind = json.dumps(call.json).encode(), "application/json"
    elif call.form is not None:
        body, kind = urlencode(call.form).encode(), "application/x-www-form-urlencoded"
    lines = [
        f"{call.method} {call.path} HTTP/1.1", f"Host: 127.0.0.1:{server.port}", "Connection: close",
        f"Authorization: Bearer {server.keys['mallory']}", f"Content-Type: {kind}", f"Content-Length: {len(body)}",
        "Accept: application/json, text/event-stream, text/html",
    ]  # fmt: skip
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "replace") + body


if __name__ == "__main__":
    main()
