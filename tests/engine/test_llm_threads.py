"""The language-model service as a server uses it: one `Services`, many threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llm_server import LLMServer
from surefind.base.errors import SurefindError
from surefind.base.prompts.values import Message, Request
from surefind.engine.llm.address import LLMSettings
from surefind.engine.llm.models import Models
from surefind.engine.services import LocalServices

pytest.importorskip("httpx")

ASK = (Message("user", "What is it?"),)


def together(*work: Callable[[], Any]) -> list[Any]:
    """What each gives in a thread of its own, or its error, in order."""
    found: list[Any] = [None] * len(work)

    def run(i: int) -> None:
        try:
            found[i] = work[i]()
        except BaseException as error:
            found[i] = error

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    return found


def test_a_benchmark_that_replays_leaves_other_threads_alone() -> None:
    """Two benchmarks that overlap: the first ends while the second runs. It used to leave the switch on for ever."""
    models = Models()
    begun, ended = threading.Event(), threading.Event()
    seen: dict[str, bool] = {}

    def first() -> None:
        with models.replaying():
            begun.set()
            time.sleep(0.1)
        ended.set()

    def second() -> None:
        begun.wait(10)
        with models.replaying():
            ended.wait(10)
            seen["second, after the first ended"] = models.replays
        seen["second, after its end"] = models.replays

    def search() -> None:
        begun.wait(10)
        seen["a search meanwhile"] = models.replays

    together(first, second, search)
    assert seen == {
        "second, after the first ended": True,
        "second, after its end": False,
        "a search meanwhile": False,
    }
    assert models.replays is False


def test_an_answer_that_came_while_the_cache_was_searched_is_not_paid_for_again(llm: LLMServer, tmp_path: Path) -> None:
    """A thread looks into the cache, another one is answered, then the first goes on to ask."""
    services = LocalServices(tmp_path, llm=LLMSettings(model=llm.model))
    chat = services.llm.chat()
    request = Request(ASK)
    assert chat.known([chat.key(request)]) == {}
    chat.complete(ASK)
    assert chat.answer(request, looked=True).cached
    assert len(llm.bodies) == 1
    services.close()


def test_failures_of_many_threads_are_all_counted(llm: LLMServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each adds one to what it has read a moment before."""

    class Slow(int):
        def __add__(self, other: int) -> Slow:
            time.sleep(0.02)
            return Slow(int(self) + other)

    monkeypatch.setattr("surefind.engine.llm.chat._SLOW", 0.0)
    monkeypatch.setattr("surefind.engine.llm.chat._SILENT", 100)
    llm.script = ["drop"] * 8
    chat = LocalServices(llm=LLMSettings(model=llm.model, retries=0)).llm.chat()
    chat._silent = Slow(0)
    found = together(*[lambda i=i: chat.complete([Message("user", str(i))]) for i in range(8)])
    assert all(isinstance(error, SurefindError) for error in found)
    assert chat._silent == 8


def test_models_are_closed_while_another_thread_makes_some(monkeypatch: pytest.MonkeyPatch) -> None:
    models = Models()
    closing = threading.Event()

    class Adapter:
        fingerprint = "toy"

        def close(self) -> None:
            closing.set()
            time.sleep(0.05)

    monkeypatch.setattr("surefind.engine.llm.models._adapter", lambda address, settings: Adapter())
    for i in range(3):
        models.chat(f"http://localhost:1/v1#{i}")

    def make() -> None:
        closing.wait(10)
        for i in range(50):
            models.chat(f"http://localhost:1/v1#new-{i}")

    assert together(models.close, make) == [None, None]
