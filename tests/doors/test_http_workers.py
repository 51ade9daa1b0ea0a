"""Processes that search for the server: the same answers, the same rights, and nothing left behind."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from cases import each
from helpers import Home
from http_helpers import Served, a_bank, serving
from surefind.base.access import Access, PathRule
from surefind.base.errors import QueryError
from surefind.base.types import SearchResult
from surefind.doors.http import search_workers
from surefind.doors.http.problems import surefind_problem
from surefind.doors.http.search_workers import LostWorkerError, SearchWorkers, is_local
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.search.reader import RequestedSearch, Searcher
from surefind.kb import KnowledgeBase
from surefind.kb.settings.serve import serve_settings

PATIENCE = 60.0
"""Seconds after which a test fails; nothing takes as long."""
HR = Access.of("hr")


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return a_bank(Home(tmp_path_factory.mktemp("workers")))


@pytest.fixture(scope="module")
def kb(bank: Home) -> Iterator[KnowledgeBase]:
    with bank.open() as kb:
        yield kb


@pytest.fixture(scope="module")
def shared(kb: KnowledgeBase) -> Iterator[SearchWorkers]:
    made = SearchWorkers(kb.folder, 2, PATIENCE)
    yield made
    made.close()


@pytest.fixture
def workers(shared: SearchWorkers, kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> SearchWorkers:
    """Two processes that have the current reader open."""
    monkeypatch.setattr(search_workers, "PAUSE_SECONDS", 0.0)
    return begun(shared, kb)


def begun(workers: SearchWorkers, kb: KnowledgeBase) -> SearchWorkers:
    """Waits until the processes have the current reader open."""

    def ready() -> bool:
        with workers.counted():  # a second search at the same time
            asked(workers, kb, "wire")
        return workers.ready_for(kb.reader()) == 2

    wait_until(ready)
    return workers


def asked(workers: SearchWorkers, kb: KnowledgeBase, query: str, access: Access | None = None) -> SearchResult:
    return found(workers, kb, kb.reader(), query, access or Access.public())


def found(
    workers: SearchWorkers, kb: KnowledgeBase, reader: Searcher, query: str = "wire3", access: Access | None = None
) -> SearchResult:
    rights = access or Access.public()
    return workers.search(reader, kb.settings, RequestedSearch(query, rights, kb.pipeline()))


def wait_until(met: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not met():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


@pytest.fixture
def elsewhere(workers: SearchWorkers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search in the process of the server fails the test."""

    def refuse(*_: Any) -> SearchResult:
        raise AssertionError("the server searched itself")

    monkeypatch.setattr(Searcher, "search", refuse)


def untimed(result: SearchResult) -> SearchResult:
    return replace(result, trace=tuple(replace(entry, ms=0.0) for entry in result.trace))


def test_the_answers_are_those_of_the_server_itself(kb: KnowledgeBase, workers: SearchWorkers) -> None:
    questions = [f"the cutoff of wire{n}" for n in range(12)] + ["salaries", "page in HTML", "nothing like it"]
    for access in (Access.public(), HR, Access.of("hr", where=("title=Wire 3",))):
        for query in questions:
            here = kb.reader().search(query, access, kb.pipeline(), 10)
            assert untimed(asked(workers, kb, query, access)) == untimed(here)


@pytest.mark.usefixtures("elsewhere")
def test_every_search_has_the_rights_of_its_caller(kb: KnowledgeBase, workers: SearchWorkers) -> None:
    for access, seen in ((HR, True), (Access.public(), False), (Access.of("sales"), False), (HR, True)):
        hits = asked(workers, kb, "cutoff of salaries zebra", access).hits
        assert any("zebra" in hit.text for hit in hits) is seen


@pytest.mark.usefixtures("elsewhere")
def test_errors_keep_their_type_and_their_sentence(kb: KnowledgeBase, workers: SearchWorkers) -> None:
    with pytest.raises(QueryError, match="The query is empty"):
        asked(workers, kb, "  ")
    assert asked(workers, kb, "wire").hits, "the process goes on"


@pytest.mark.usefixtures("elsewhere")
def test_a_killed_process_is_replaced_and_its_search_is_answered(kb: KnowledgeBase, workers: SearchWorkers) -> None:
    before = workers.pids()
    os.kill(before[0], signal.SIGKILL)
    assert [asked(workers, kb, "wire3").hits[0].document for _ in range(4)]
    wait_until(lambda: asked(workers, kb, "wire3") and workers.ready_for(kb.reader()) == 2)
    assert before[0] not in workers.pids() and before[1] in workers.pids()


def test_without_another_process_the_caller_is_asked_to_try_again(
    kb: KnowledgeBase, workers: SearchWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server does not search itself: the search may be what ended the processes."""
    monkeypatch.setattr(search_workers, "PAUSE_SECONDS", 1.0)
    for pid in workers.pids():
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(LostWorkerError) as lost:
        asked(workers, kb, "wire3")
    assert surefind_problem(lost.value, "id").status_code == 503
    assert asked(workers, kb, "wire3").hits, "later searches are done by the server until the processes are back"


def test_a_process_that_hangs_is_replaced(
    kb: KnowledgeBase, workers: SearchWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = workers.pids()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    with monkeypatch.context() as patch, pytest.raises(TimeoutError):
        patch.setattr(workers, "_seconds", 0.2)
        asked(workers, kb, "wire3")
    assert len(list(filter(gone, pids))) == 1, "the other one has not been asked yet"
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    assert asked(begun(workers, kb), kb, "wire3").hits


def test_an_answer_is_of_the_generation_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = a_bank(Home(tmp_path))
    with home.open() as kb:
        workers = begun(SearchWorkers(kb.folder, 2, PATIENCE), kb)
        try:
            before = kb.reader()
            home.write("docs/wires/03.md", "# Wire 3\n\nThe cutoff of wire3 is newword.\n", age=0)
            home.sync()
            kb.refresh()
            begun(workers, kb)
            old = found(workers, kb, before)  # the server does it: the processes have left it behind
            assert (old.generation, "newword" in old.hits[0].text) == (before.generation, False)
            monkeypatch.setattr(Searcher, "search", None)
            new = found(workers, kb, kb.reader())
            assert (new.generation, "newword" in new.hits[0].text) == (kb.reader().generation, True)
        finally:
            workers.close()


def test_new_access_rules_reach_the_processes(
    kb: KnowledgeBase, workers: SearchWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asked(workers, kb, "wire3").hits[0].document.endswith("03.md")
    settings = kb.settings
    kb.use(replace(settings, access=(PathRule("**/wires/*", ("board",)),)))
    begun(workers, kb)
    with monkeypatch.context() as patch:
        patch.setattr(Searcher, "search", None)
        assert not [hit for hit in asked(workers, kb, "wire3").hits if "wires" in hit.document]
        assert asked(workers, kb, "wire3", Access.of("board")).hits[0].document.endswith("03.md")
    kb.use(settings)


def test_closing_leaves_no_process(kb: KnowledgeBase) -> None:
    workers = begun(SearchWorkers(kb.folder, 2, PATIENCE), kb)
    pids = workers.pids()
    workers.close()
    assert len(pids) == 2 and all(map(gone, pids))
    assert asked(workers, kb, "wire3").hits, "a last search is done by the server"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds processes below /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_the_server(bank: Home, number: int) -> None:
    with serving(bank.folder, "--workers", "2", forked=number != signal.SIGINT) as server:
        assert not children(server), "one search at a time needs none"
        stop = threading.Event()
        threads = [threading.Thread(target=search_until, args=(server, stop)) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: len(children(server)) == 2)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        pids = children(server)
        server.process.send_signal(number)
        server.process.wait(PATIENCE)
        wait_until(lambda: all(map(gone, pids)))
        assert "Traceback" not in server.log.read_text()


def search_until(server: Served, stop: threading.Event) -> None:
    with server.client() as client:
        for n in count():  # new words each time, because answers are cached
            if stop.is_set():
                return
            given = {"query": f"wire3 {n} {threading.get_ident()}", "confidence": "quick"}
            with suppress(httpx.TransportError):
                assert client.get("/v1/search", params=given).status_code == 200


def children(server: Served) -> list[int]:
    tasks = Path(f"/proc/{server.process.pid}/task").iterdir()
    pids = [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
    return [pid for pid in pids if b"search_process" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for counts as ended."""
    if sys.platform == "linux":
        with suppress(FileNotFoundError, ProcessLookupError):
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@each(
    ("pipeline", "local"),
    [
        ("bm25", True),
        ("bm25 + dense >> convex(alpha=0.5)", True),
        ("dense(model=onnx(path=models/own))", True),
        ("dense(model=prefixed(model=onnx(path=models/own)))", True),
        ('dense(model=openai(model=small, url="https://api.example/v1"))', False),
        ('dense(model=concat(models=[minilm, openai(model=small, url="https://api.example/v1")]))', False),
        ("hyde(retriever=bm25, model=openai:gpt)", False),
        ("bm25 + dense >> llm_weights(model=openai:gpt)", False),
        ("bm25 >> cross_encoder", False),
    ],
)
def test_a_process_gets_no_search_that_may_ask_a_server(kb: KnowledgeBase, pipeline: str, local: bool) -> None:
    assert is_local(Pipeline.parse(pipeline), kb.settings) is local


@each("number", [0, 1, 3])
def test_the_number_of_processes_is_a_setting(number: int) -> None:
    assert serve_settings({"workers": number}).workers == number
