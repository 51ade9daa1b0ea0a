"""Whether models can be used, without asking any of them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers import Home
from surefind.kb.model_health import ModelHealth, model_health

SETTINGS = """
[search]
pipeline = "words"
[pipelines.words]
retrieve = ["bm25"]
"""


class Listening:
    """A port of this machine that accepts connections and counts what comes in."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.socket.getsockname()[1])

    def received(self) -> bytes:
        self.socket.settimeout(5)
        connection, _ = self.socket.accept()
        with connection:
            return connection.recv(1000)


@pytest.fixture
def server() -> Iterator[Listening]:
    made = Listening()
    with made.socket:
        yield made


def health(folder: Path, more: str) -> list[ModelHealth]:
    with Home(folder, SETTINGS + more).open() as kb:
        return model_health(kb)


def test_a_knowledge_base_without_models_has_none_to_check(tmp_path: Path) -> None:
    assert health(tmp_path, "") == []


def test_a_server_is_reachable_and_gets_nothing(tmp_path: Path, server: Listening) -> None:
    encoder = f'[pipelines.a]\nretrieve = ["dense(model=openai(url=http://127.0.0.1:{server.port}/v1))"]\n'
    (found,) = health(tmp_path, encoder)
    assert (found.kind, found.state) == ("encoder", "ok") and "Nothing was sent" in found.says
    assert server.received() == b""


def test_a_server_that_does_not_listen_is_named(tmp_path: Path, server: Listening) -> None:
    server.socket.close()
    (found,) = health(tmp_path, f'[llm]\nmodel = "http://127.0.0.1:{server.port}/v1#small"\n')
    assert (found.kind, found.state) == ("language model", "failed")
    assert f"127.0.0.1:{server.port} cannot be reached" in found.says


def test_a_missing_key_and_an_unconfirmed_server_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    more = '[llm]\nmodel = "openai:gpt-4.1-mini"\nfallback = "https://models.example.com/v1#small"\n'
    found = {one.name: one for one in health(tmp_path, more)}
    assert "OPENAI_API_KEY" in found["openai:gpt-4.1-mini"].says
    assert "surefind trust models.example.com" in found["https://models.example.com/v1#small"].says
    assert {one.state for one in found.values()} == {"failed"}


def test_models_of_this_machine_are_opened(tmp_path: Path) -> None:
    more = (
        '[pipelines.a]\nretrieve = ["dense"]\nrerank = ["conditional(stage=cross_encoder)"]\n'
        '[pipelines.b]\nretrieve = ["dense(model=onnx(path=nowhere))"]\nrerank = ["cross_encoder(model=nowhere)"]\n'
    )
    found = {(one.kind, one.state) for one in health(tmp_path, more)}
    assert found == {("encoder", "ok"), ("encoder", "failed"), ("reranker", "ok"), ("reranker", "failed")}


def test_a_model_that_costs_money_is_not_asked(tmp_path: Path) -> None:
    found = health(tmp_path, '[llm]\nmodel = "bedrock:amazon.nova-lite-v1:0"\n')
    assert [one.state for one in found] == ["unknown"]
