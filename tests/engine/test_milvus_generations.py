"""Sets of documents in Milvus are added, rolled back, interrupted and deleted, and answer as on this machine."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases import each

pytest.importorskip("milvus_lite", reason="surefind[milvus] is not installed: make milvus")

from milvus_kit import Shelf
from surefind.base import spec
from surefind.base.access import Access
from surefind.base.errors import NotBuiltError, StoreError
from surefind.base.types import Document, Query, Rankings
from surefind.engine.store.backends.local import LocalBackend
from surefind.engine.store.backends.milvus import backend as milvus
from surefind.engine.store.backends.milvus import server as servers
from surefind.engine.store.backends.milvus.backend import MilvusBackend
from surefind.engine.store.backends.milvus.server import Server
from surefind.engine.store.backends.milvus.words import DRIFT

pytestmark = pytest.mark.usefixtures("toys")
WORDS = "cash teller vault report loan branch audit night key drawer coin note".split()
QUERIES = [Query("cash report of the vault"), Query("night audit night"), Query("loan"), Query("nothing known here")]
OWNER = Access.owner()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Server:
    return Server(str(tmp_path_factory.mktemp("milvus") / "kb.db"))


def shelf_of(folder: Path, server: Server, *retrievers: str) -> Shelf:
    chosen = [spec.make("retrieve", text) for text in retrievers or ("bm25", "dense(model=toy)")]
    return Shelf(folder, lambda catalogue: MilvusBackend(catalogue, server), chosen)


def document(chance: random.Random, name: str, length: int = 12) -> Document:
    text = " ".join(chance.choices(WORDS, k=max(1, length + chance.randrange(-4, 5))))
    return Document(name, text, metadata={"year": chance.randrange(2020, 2025)})


def corpus(seed: int, count: int, length: int = 12) -> dict[str, Document]:
    chance = random.Random(seed)
    return {f"{i:03}.md": document(chance, f"{i:03}.md", length) for i in range(count)}


def scores_of(rankings: Rankings, row: int) -> dict[int, float]:
    ids, scores = rankings.row(row)
    return dict(zip(ids.tolist(), scores.tolist(), strict=True))


def compare(shelf: Shelf, numbers: list[int], tolerance: float = DRIFT) -> None:
    """Checks every set against indexes that are built from nothing on this machine."""
    local = LocalBackend(shelf.catalogue)
    for number in numbers:
        local.build(shelf.contents(number), shelf.layout, shelf.retrievers, shelf.services, lambda *_: None)
        remote, here = (
            one.open(shelf.contents(number), shelf.layout, shelf.services, ()) for one in (shelf.backend, local)
        )
        for retriever in shelf.retrievers:
            found, expected = (view.search(retriever, QUERIES, 1000, OWNER) for view in (remote, here))
            for row in range(len(QUERIES)):
                own, other = (
                    dict(zip(*(part.tolist() for part in one.row(row)), strict=True)) for one in (found, expected)
                )
                assert own.keys() == other.keys(), (number, retriever)
                assert all(own[key] == pytest.approx(other[key], rel=tolerance, abs=1e-5) for key in own)


@each("seed", range(3))
def test_every_kept_set_stays_as_it_is_on_this_machine(seed: int, server: Server, tmp_path: Path) -> None:
    chance = random.Random(seed)
    shelf = shelf_of(tmp_path, server)
    documents = corpus(seed, 40)
    history = {shelf.commit(documents): documents}
    for _ in range(6):
        kind = chance.choice(["change", "change", "rollback", "interrupt", "sweep"])
        newest = list(history)[-1]
        if kind == "rollback":
            number = chance.choice(list(history))
            shelf.rollback(number)
            documents = history[number]
        documents = dict(documents)
        for _ in range(4):
            name = f"{chance.randrange(50):03}.md"
            if not documents.pop(name, None) or chance.random() < 0.5:
                documents[name] = document(chance, name)
        if kind == "interrupt":
            shelf.stage(documents)
            shelf.undo(newest if shelf.catalogue.snapshot_id() == newest else shelf.catalogue.snapshot_id())
            documents = history[shelf.catalogue.snapshot_id()]
            continue
        number = shelf.commit(documents)
        history[number] = documents
        if kind == "sweep":
            keep = set(list(history)[-2:])
            shelf.sweep(keep)
            history = {number: held for number, held in history.items() if number in keep}
    compare(shelf, list(history))
    shelf.close()


def collections(shelf: Shelf, server: Server) -> list[str]:
    assert isinstance(shelf.backend, MilvusBackend)
    return server.collections(shelf.backend.namespace)


def test_small_change_adds_rows_to_the_same_collection(server: Server, tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path, server, "bm25")
    documents = corpus(1, 30)
    shelf.commit(documents)
    (name,) = collections(shelf, server)
    shelf.commit({**documents, "new.md": documents["003.md"]})
    assert collections(shelf, server) == [name]
    assert server.count(name, "version > 0") == 31


def test_collection_is_written_again_when_lengths_drift(server: Server, tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path, server, "bm25")
    documents = corpus(1, 30)
    numbers = [shelf.commit(documents)]
    longer = {f"long{i}.md": Document(f"long{i}.md", f"{one.text} " * 8) for i, one in enumerate(documents.values())}
    numbers.append(shelf.commit({**documents, **longer}))
    assert len(collections(shelf, server)) == 2
    compare(shelf, numbers, tolerance=1e-5)
    shelf.sweep({numbers[1]})
    assert len(collections(shelf, server)) == 1


def test_collection_is_written_again_when_the_expression_gets_long(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(milvus, "_LISTED", 3)
    shelf = shelf_of(tmp_path, server, "dense(model=toy)")
    documents = corpus(1, 20)
    numbers = [shelf.commit(documents)]
    for i in range(5):
        documents = {**documents, f"{i:03}.md": document(random.Random(i), f"{i:03}.md")}
        numbers.append(shelf.commit(documents))
    assert len(collections(shelf, server)) == 2
    compare(shelf, numbers)


def test_set_of_new_versions_alone_excludes_the_earlier_sets_by_number(server: Server, tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path, server, "dense(model=toy)")
    numbers = [shelf.commit(corpus(1, 20)), shelf.commit(corpus(2, 20))]
    view: Any = shelf.backend.open(shelf.contents(numbers[1]), shelf.layout, shelf.services, ())
    expression = view.index(shelf.retrievers[0])._record.expression
    assert expression == f"first <= {numbers[1]} and first not in [{numbers[0]}]"
    compare(shelf, numbers)


def test_lost_rows_are_noticed_and_written_again(server: Server, tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path, server, "bm25")
    number = shelf.commit(corpus(1, 20))
    (name,) = collections(shelf, server)
    server.delete_versions(name, [3])
    view = shelf.backend.open(shelf.contents(number), shelf.layout, shelf.services, ())
    with pytest.raises(NotBuiltError, match="19 passages of this generation instead of 20"):
        view.search(shelf.retrievers[0], QUERIES, 5, OWNER)
    built = shelf.backend.build(shelf.contents(number), shelf.layout, shelf.retrievers, shelf.services, lambda *_: None)
    assert built == ["bm25"]
    compare(shelf, [number])
    assert not shelf.backend.build(
        shelf.contents(number), shelf.layout, shelf.retrievers, shelf.services, lambda *_: None
    )


class Flaky:
    """A client that fails, now and then, before or after the server did what it was asked for."""

    def __init__(self, server: Server, method: str, failures: list[str]) -> None:
        self._client = server._client()
        self._method = method
        self.failures = failures
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._client, name)
        return self._failing(real) if name == self._method else real

    def _failing(self, real: Any) -> Any:
        from pymilvus import MilvusException

        def call(*args: Any, **options: Any) -> Any:
            self.calls += 1
            when = self.failures.pop(0) if self.failures else ""
            if when == "before":
                raise MilvusException(message="the server was busy")
            done = real(*args, **options)
            if when == "after":
                raise MilvusException(message="the connection was lost")
            return done

        return call


@each("when", ["before", "after"])
def test_failed_write_is_repeated_without_duplicates(
    when: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "_PAUSES", (0.0, 0.0))
    monkeypatch.setattr(milvus, "_BATCH", 7)
    flaky = Flaky(server, "upsert", ["", when, when, ""])
    shelf = shelf_of(tmp_path, Server(server.uri, client=flaky), "bm25")
    number = shelf.commit(corpus(1, 20))
    assert flaky.calls == 5  # three batches, two failures
    compare(shelf, [number])


def test_server_that_keeps_failing_publishes_nothing(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "_PAUSES", (0.0, 0.0))
    monkeypatch.setattr(milvus, "_BATCH", 7)
    flaky = Flaky(server, "upsert", [])
    shelf = shelf_of(tmp_path, Server(server.uri, client=flaky), "bm25")
    documents = corpus(1, 20)
    first = shelf.commit(documents)
    flaky.failures = ["", *["before"] * 3]
    with pytest.raises(StoreError, match=r"Milvus at .* failed \(upsert: the server was busy\)"):
        shelf.stage(corpus(2, 20))
    names = collections(shelf, server)
    assert sum(len(server.aliases(name)) for name in names) == 1
    compare(shelf, [first])
    shelf.undo(first)
    assert len(collections(shelf, server)) == 1
    compare(shelf, [first, shelf.commit(corpus(3, 20))])


def test_server_that_does_not_answer_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"Milvus at http://127\.0\.0\.1:1 does not answer .*\. Start the server"):
        Server("http://127.0.0.1:1").collections("")


def test_result_that_the_table_does_not_admit_is_dropped(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that ignores the expression shows nothing that the caller may not read."""
    shelf = shelf_of(tmp_path, server, "bm25")
    documents = {f"{i}.md": Document(f"{i}.md", "cash report", acl=("board",) if i % 2 else ()) for i in range(6)}
    number = shelf.commit(documents)
    real = Server.search
    monkeypatch.setattr(
        Server, "search", lambda self, name, kind, vectors, k, _: real(self, name, kind, vectors, k, "")
    )
    view = shelf.backend.open(shelf.contents(number), shelf.layout, shelf.services, ())
    found = view.search(shelf.retrievers[0], [Query("cash")], 10, Access.public())
    assert {chunk.document for chunk in view.chunks(found.row(0)[0].tolist(), OWNER)} <= {"0.md", "2.md", "4.md"}


def test_graph_retrievers_use_the_indexes_in_milvus(server: Server, tmp_path: Path) -> None:
    shelf = shelf_of(tmp_path, server, "ppr(seed=[bm25, dense(model=toy)])")
    documents = {
        f"{i}.md": Document(f"{i}.md", f"The Quillhaven Vault {i % 3} is counted by the Night Desk {i}.")
        for i in range(12)
    }
    number = shelf.commit(documents)
    local = LocalBackend(shelf.catalogue)
    local.build(shelf.contents(number), shelf.layout, shelf.retrievers, shelf.services, lambda *_: None)
    remote, here = (
        one.open(shelf.contents(number), shelf.layout, shelf.services, ()) for one in (shelf.backend, local)
    )
    assert not remote.missing(shelf.retrievers)
    found, expected = (view.search(shelf.retrievers[0], [Query("Night Desk 3")], 5, OWNER) for view in (remote, here))
    assert np.allclose(found.scores, expected.scores, atol=1e-5)
