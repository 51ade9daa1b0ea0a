"""Connections are closed with their owner, at the latest when the program ends, and never under a call."""

from __future__ import annotations

import gc
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cases import each
from line_server import Line, Serve, says, serving, soon
from rerank_helpers import Shelf
from surefind.base.prompts.values import Message
from surefind.base.protocols import Services
from surefind.base.types import Query
from surefind.engine.embed.openai import OpenAI
from surefind.engine.net.endpoint import Endpoint
from surefind.engine.rerank.hosted import Hosted
from surefind.engine.services import LocalServices
from surefind.testing import rankings_of

pytest.importorskip("httpx")

ANSWER = {
    "choices": [{"message": {"content": "fine"}}],
    "data": [{"embedding": [3.0, 4.0]}],
    "results": [{"index": 0, "relevance_score": 0.5}],
}
"""To a chat, an embedding and a reranking."""


def late(seconds: float) -> Serve:
    def serve(line: socket.socket, request: bytes) -> bool:
        time.sleep(seconds)
        return says(json.dumps(ANSWER).encode())(line, request)

    return serve


@pytest.fixture
def line() -> Iterator[Line]:
    with serving(late(0)) as made:
        yield made


def embed(line: Line, services: Services) -> Any:
    model = OpenAI(model="toy", url=f"http://127.0.0.1:{line.port}/v1", key_env="")
    return services.embedder(str(model)).embed(["a"]).tolist()


def rerank(line: Line, services: Services) -> Any:
    stage = Hosted(api="jina", url=f"http://127.0.0.1:{line.port}/v1/rerank", key_env="")
    found = stage.rerank([Query("a")], rankings_of([([0], [1.0])]), Shelf("text"), 1, services)
    return found.ids.tolist()


def chat(line: Line, services: Services) -> Any:
    return services.chat(f"http://127.0.0.1:{line.port}/v1#toy").complete([Message("user", "a")]).text


def close(services: Services) -> None:
    services.close()


@pytest.mark.parametrize("ask", [chat, embed, rerank])
def test_connections_close_with_the_services_and_open_again(line: Line, ask: Callable[[Line, Services], Any]) -> None:
    services = LocalServices()
    first = ask(line, services)
    assert (line.open, ask(line, services)) == (1, first)
    close(services)
    assert soon(lambda: line.open == 0)
    assert ask(line, LocalServices()) == first
    assert line.connections == 2


@each("ask", [chat, embed, rerank])
def test_a_call_under_way_is_not_broken_by_closing(ask: Callable[[Line, Services], Any]) -> None:
    """Another knowledge base of this process may use the same encoder."""
    with serving(late(0.5)) as line:
        services, found = LocalServices(), []
        thread = threading.Thread(target=lambda: found.append(ask(line, services)))
        thread.start()
        assert soon(lambda: len(line.requests) == 1)
        close(services)
        assert line.open == 1
        thread.join()
        assert len(found) == 1
        assert soon(lambda: line.open == 0)  # nobody else would close it


def test_eight_threads_that_ask_while_one_closes(line: Line) -> None:
    endpoint = Endpoint(f"http://127.0.0.1:{line.port}/", "", 5.0, 0)
    failed: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(5):
                endpoint.post({})
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        endpoint.close()
        time.sleep(0.002)
    endpoint.close()
    assert failed == []
    assert soon(lambda: line.open == 0)


def test_an_endpoint_that_nobody_holds_closes_its_connections(line: Line) -> None:
    Endpoint(f"http://127.0.0.1:{line.port}/", "", 5.0, 0).post({})
    gc.collect()
    assert soon(lambda: line.open == 0)


SETUP = """
import gc
from surefind.engine.embed.openai import OpenAI
from surefind.engine.net.endpoint import Endpoint
from surefind.engine.llm.address import LLMSettings
from surefind.base.prompts.values import Message
from surefind.engine.services import LocalServices
url = "http://127.0.0.1:{port}/v1"
ask = [Message("user", "a")]
"""


@pytest.mark.parametrize(
    "code",
    [
        "services = LocalServices(); services.chat(url + '#toy').complete(ask)",
        "services = LocalServices(); services.chat(url + '#toy').complete(ask); services.close()",
        "LocalServices().chat(url + '#toy').complete(ask); gc.collect()",
        "OpenAI(url=url, key_env='').embed(['a'])",
        "kept = Endpoint(url, '', 5.0, 0); kept.post({{}})",
        "def f():\n  e = Endpoint(url, '', 5.0, 0); e.post({{}}); e.cycle = e\nf()",
    ],
    ids=["chat", "chat closed", "chat dropped", "embedder", "endpoint", "endpoint in a cycle"],
)
def test_a_program_ends_without_a_warning(line: Line, code: str) -> None:
    program = (SETUP + code).format(port=line.port)
    command = [sys.executable, "-X", "dev", "-W", "error::ResourceWarning", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert line.connections == 1
    assert soon(lambda: line.open == 0)
