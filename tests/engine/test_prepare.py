"""Preparing is a pure function of the file and the settings; committing is short; both cores read."""

from __future__ import annotations

import json
import os
import pickle
import threading
import time
from pathlib import Path

import pytest

from cases import each
from helpers import EXAMPLE, WORDS, Home, ask
from surefind import Access
from surefind.base.errors import SourceError
from surefind.base.running import usable_cores
from surefind.engine.files.inside import reading
from surefind.engine.files.opening import FileLimits
from surefind.engine.files.readers import Readers
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.database import ConnectionPool
from surefind.engine.write.layout import Layout
from surefind.engine.write.prepare import Prepared, PrepareTask, from_data, prepare, to_data
from surefind.engine.write.preparing import FilePreparer, spares

LAYOUT = "hierarchical(parent=200, child=40, overlap=0) + headings"
FILES = sorted(EXAMPLE.rglob("*.md"))[:12]


def prepared(path: Path, layout: str = LAYOUT) -> Prepared:
    with reading(FileLimits(), Readers()) as here:
        return prepare(PrepareTask("markdown", str(path), path.name, layout), here)


@each("path", FILES, ids=lambda path: path.name)
def test_preparing_gives_the_same_each_time_and_survives_pickling_and_json(path: Path) -> None:
    first, again = prepared(path), prepared(path)
    assert first == again
    assert pickle.loads(pickle.dumps(first)) == first
    data = json.loads(json.dumps(to_data(first)))
    assert from_data(data) == first
    task = PrepareTask("markdown", str(path), "a", LAYOUT)
    assert pickle.loads(pickle.dumps(task)) == task


def test_child_process_prepares_what_this_one_does() -> None:
    with FilePreparer(Readers(), FileLimits()) as apart:
        for path in FILES:
            found = apart.read(Readers().find("a.md"), path, path.name, LAYOUT)
            assert found == prepared(path)


def test_child_that_has_no_memory_for_the_request_says_so_too() -> None:
    """Not only reading a file needs memory: the request and the answer do, too."""
    request = PrepareTask("markdown", "a.md", "a" * 50_000_000).to_json()
    with (
        FilePreparer(Readers(), FileLimits(memory_mb=60)) as readers,
        pytest.raises(SourceError, match=r"^needs more than 60 MB of memory to be read \(max_memory_mb\)$"),
    ):
        readers.answer(request)


def test_every_core_prepares_markdown() -> None:
    """Two processes are alive while files are read, and results come in order."""
    with FilePreparer(Readers(), FileLimits()) as apart:
        seen: set[int] = set()

        def read(path: Path) -> str:
            found = apart.read(Readers().find("a.md"), path, path.name, LAYOUT)
            seen.update(child.process.pid for child in apart._children)
            return found.documents[0].id

        assert list(apart.each(read, FILES, len(FILES))) == [path.name for path in FILES]
        assert len(seen) == min(usable_cores(), len(FILES))


def test_layouts_that_ask_a_service_are_cut_where_the_services_are() -> None:
    assert Layout.read("markdown(tokens=100) + headings").text_only
    assert not Layout.read("semantic").text_only
    assert not Layout.read("markdown(tokens=100) + llm_context").text_only


def test_no_file_is_read_inside_a_transaction(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    inside: list[bool] = []
    depth = threading.local()
    real_transaction, real_read = Catalogue.transaction, FilePreparer.read

    class Marked:
        def __init__(self, context: object) -> None:
            self.context = context

        def __enter__(self) -> None:
            depth.open = True
            self.context.__enter__()

        def __exit__(self, *given: object) -> object:
            depth.open = False
            return self.context.__exit__(*given)

    def read(self: FilePreparer, *given: object) -> Prepared:
        inside.append(getattr(depth, "open", False))
        return real_read(self, *given)

    monkeypatch.setattr(Catalogue, "transaction", lambda self: Marked(real_transaction(self)))
    monkeypatch.setattr(FilePreparer, "read", read)
    home.write("docs/only.md", "alpha")  # one file is read by the thread that commits
    home.sync("docs")
    for i in range(5):
        home.write(f"docs/{i}.md", f"alpha {i}")
    home.sync()
    assert len(inside) == 6
    assert not any(inside)


def test_interrupt_while_files_are_read_ends_at_once_and_leaves_no_process(home: Home) -> None:
    for i in range(30):
        home.write(f"docs/{i}.md", "alpha " * 2000)
    told = 0

    def stop(what: str, done: int, total: int) -> None:
        nonlocal told
        told += 1
        if told == 5:
            raise KeyboardInterrupt

    spares.end()
    started = time.monotonic()
    with home.open() as kb, pytest.raises(KeyboardInterrupt):
        kb.sync(home.docs, report=stop)
    assert time.monotonic() - started < 60
    assert not children_of(os.getpid())
    assert home.sync("docs").added == 30


def test_processes_wait_for_the_next_sync_and_end_with_this_one(home: Home) -> None:
    spares.end()
    home.write("docs/a.md", "alpha")
    home.sync("docs")
    first = children_of(os.getpid())
    home.write("docs/b.md", "beta")
    home.sync()
    assert len(first) == 1
    assert children_of(os.getpid()) == first, "the same process served both"
    home.configure(f"{WORDS}\n[sync]\nmax_seconds = 7\n")
    home.write("docs/c.md", "gamma")
    home.sync()
    assert home.found("gamma") == ["c.md"]
    spares.end()
    assert children_of(os.getpid()) == []


def test_fork_does_not_talk_to_the_processes_of_its_parent(home: Home) -> None:
    home.write("docs/a.md", "alpha")
    home.sync("docs")
    pid = os.fork()
    if pid == 0:
        os._exit(len(spares._waiting))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert len(spares._waiting) >= 1


def children_of(pid: int) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            command = (path.parent / "cmdline").read_text()
            if parent == pid and "surefind.engine.write.child" in command:
                found.append(path.parent.name)
        except (OSError, ValueError):
            continue
    return found


# ---------------------------------------------------------------- ids that records carry


def beir(home: Home, name: str, *texts: str) -> None:
    rows = [json.dumps({"_id": str(i), "title": name, "text": text}) for i, text in enumerate(texts)]
    home.write(f"{name}/corpus.jsonl", "\n".join(rows))


def test_records_of_two_collections_with_one_id_are_two_documents(home: Home) -> None:
    beir(home, "one", "alpha common", "beta common")
    beir(home, "two", "gamma common", "delta common")
    home.sync("one", "two")
    assert sorted(home.found("common", k=20)) == ["0", "1", "two/0", "two/1"]
    assert home.found("gamma") == ["two/0"]
    assert home.found("alpha") == ["0"]
    beir(home, "one", "alpha common", "epsilon common")
    home.sync()
    assert sorted(home.found("common", k=20)) == ["0", "1", "two/0", "two/1"]
    assert home.found("epsilon") == ["1"]


def test_records_of_two_files_of_one_source_are_two_documents(home: Home) -> None:
    beir(home, "docs/a", "alpha common")
    beir(home, "docs/b", "beta common")
    home.sync("docs")
    assert len(set(home.found("common", k=20))) == 2
    assert home.found("beta") != home.found("alpha")


# ---------------------------------------------------------------- long documents


def test_passages_of_a_long_document_are_read_without_the_rest_of_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.configure(WORDS)
    home.write("docs/long.md", "\n\n".join(f"paragraph {i} about cash and other matters ä" for i in range(40_000)))
    home.sync("docs")
    with home.open() as kb:
        view = kb.reader().view
        ids = view.spans().ids
        chosen = ids[:: len(ids) // 20][:20].tolist()
        read: list[str] = []
        execute = ConnectionPool.execute
        monkeypatch.setattr(
            ConnectionPool, "execute", lambda self, *given: (read.append(given[0]), execute(self, *given))[1]
        )
        found = view.passages(chosen, Access.owner())
        assert len(read) <= 3, "two statements, however many passages"
        (document,) = kb.documents(Access.owner())
        assert all(document.text[p.chunk.start : p.chunk.end] == p.chunk.text for p in found)
        hit = ask(kb, "paragraph 39999", k=1).hits[0]
        assert "paragraph 39999" in hit.text
