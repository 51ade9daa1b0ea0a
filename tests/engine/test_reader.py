"""Many readers beside one writer: a reader keeps its generation, and a search never writes, builds or waits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers import WORDS, Home, ask
from surefind import Access, KnowledgeBase
from surefind.base.errors import NotBuiltError, StoreError
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.store.lock import writer_lock

PUBLIC = Access.public()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    for i in range(6):
        home.write(f"docs/{i}.md", f"common version0 number{i}")
    home.sync("docs")
    return home


OBEY = """
import shutil, sys
from pathlib import Path
from surefind import KnowledgeBase
for line in sys.stdin:
    order, folder = line.rstrip().split(" ", 1)
    if order == "sync":
        with KnowledgeBase.open(folder) as kb:
            kb.sync()
    else:
        built = Path(folder, ".surefind/indexes").glob("*/docs.npy")
        shutil.rmtree(max(built, key=lambda path: path.stat().st_mtime_ns).parent)
    print("done", flush=True)
"""


@pytest.fixture(scope="module")
def obedient() -> Iterator[subprocess.Popen[str]]:
    """Another process, which starts once: a start costs more than the syncs of a test."""
    started = subprocess.Popen([sys.executable, "-c", OBEY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield started
    started.communicate(timeout=60)
    assert started.returncode == 0


@pytest.fixture
def another_process(home: Home, obedient: subprocess.Popen[str]) -> Callable[[str], None]:
    """Has another process do a `sync`, or `drop` the indexes of the newest generation."""

    def order(what: str) -> None:
        assert obedient.stdin and obedient.stdout
        obedient.stdin.write(f"{what} {home.folder}\n")
        obedient.stdin.flush()
        assert obedient.stdout.readline() == "done\n", "the other process failed; see stderr"

    return order


def rewrite(home: Home, version: int, first: int = 0) -> None:
    """Every document says which version it is of; those before `first` are gone."""
    for path in home.docs.iterdir():
        path.unlink()
    for i in range(first, 6 + version):
        home.write(f"docs/{i}.md", f"common version{version} number{i}", age=1000 - version)


def until(holds: Callable[[], bool]) -> None:
    for _ in range(1200):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen within a minute")


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file of the data folder; SQLite's shared memory and the leases of readers are not content."""
    skipped = ("-shm", "-wal")
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.stat().st_size)
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(skipped) and path.parent.name != "readers"
    }


# ---------------------------------------------------------------- a search writes nothing


@pytest.mark.parametrize("pipeline", ["words", "bm25(k1=0.9)", "bm25 + bm25(k1=0) >> rrf(k=60)"])
def test_search_changes_no_file(home: Home, pipeline: str) -> None:
    before = tree(home.folder / ".surefind")
    with home.open() as kb:
        for k in (1, 3, 20):
            assert kb.search("common", PUBLIC, k, pipeline).hits
    assert tree(home.folder / ".surefind") == before


@pytest.mark.parametrize("pipeline", ["tfidf(ngrams=2)", "bm25(analyzer=plain)", "bm25 + tfidf(ngrams=1) >> rrf(k=60)"])
def test_pipeline_that_was_not_built_is_an_error_with_the_way_out_and_nothing_is_built(
    home: Home, pipeline: str
) -> None:
    before = tree(home.folder / ".surefind")
    with home.open() as kb:
        with pytest.raises(NotBuiltError, match=r"There is no index for .* Build it with surefind sync"):
            kb.search("common", PUBLIC, pipeline=pipeline)
        assert tree(home.folder / ".surefind") == before
        assert kb.build(pipeline)
        assert kb.search("common", PUBLIC, pipeline=pipeline).hits
        assert kb.build(pipeline) == [], "it is there now, and building takes no lock"


def test_search_and_opening_need_no_lock(home: Home) -> None:
    with writer_lock(home.folder / ".surefind"), home.open() as kb:
        assert kb.search("common", PUBLIC).hits
        assert kb.build("words") == []


def test_search_does_not_wait_for_a_writer_in_a_transaction(home: Home) -> None:
    from surefind.engine.store.catalogue import Catalogue

    catalogue = Catalogue(home.folder / ".surefind")
    with catalogue.transaction():
        catalogue.db.execute("UPDATE versions SET title = 'half written'")
        with home.open() as kb:
            assert {hit.title for hit in kb.search("common", PUBLIC).hits} != {"half written"}
    catalogue.close()


READ_ONLY = """
import os, sys
from pathlib import Path
from surefind import Access, KnowledgeBase
def hits(folder):
    with KnowledgeBase.open(folder) as kb:
        return len(kb.search("common", Access.public()).hits)
hits(sys.argv[1])  # everything is imported from here on
data = Path(sys.argv[2], ".surefind")
for path in [*data.rglob("*"), data]:
    path.chmod(0o555 if path.is_dir() else 0o444)
if os.geteuid() == 0:
    os.seteuid(65534)  # root may write anywhere
try:
    (data / "tried").write_text("")
except PermissionError:
    print(hits(sys.argv[2]))
"""


def test_folder_that_cannot_be_written_to_can_be_searched(home: Home) -> None:
    with tempfile.TemporaryDirectory() as open_to_all:
        Path(open_to_all).chmod(0o755)
        copy = Path(open_to_all, "kb")
        shutil.copytree(home.folder, copy)
        copy.chmod(0o755)
        for name in ("catalogue.db-shm", "catalogue.db-wal"):
            (copy / ".surefind" / name).unlink(missing_ok=True)
        command = [sys.executable, "-c", READ_ONLY, str(home.folder), str(copy)]
        done = subprocess.run(command, capture_output=True, text=True)
        for path in [copy / ".surefind", *(copy / ".surefind").rglob("*")]:
            path.chmod(0o755)
    assert done.stdout.strip() == "6", done.stderr


# ---------------------------------------------------------------- a reader keeps its generation


@pytest.mark.parametrize("pipeline", ["words", "tfidf(ngrams=2)"])
def test_reader_answers_for_its_generation_after_syncs_in_another_process(
    home: Home, another_process: Callable[[str], None], pipeline: str
) -> None:
    """An index that is built for an old snapshot after two syncs once mixed documents up."""
    with home.open() as kb:
        kb.build(pipeline)
        reader = kb.reader()
        for version in (1, 2, 3, 4, 5):
            rewrite(home, version, first=version)
            another_process("sync")
        found = reader.search("common", PUBLIC, kb.pipeline(pipeline), k=20)
        assert sorted(hit.text for hit in found.hits) == [f"common version0 number{i}" for i in range(6)]
        assert found.generation == 1


def test_index_that_is_first_wanted_late_is_never_built_for_an_old_generation(
    home: Home, another_process: Callable[[str], None]
) -> None:
    with home.open() as kb:
        reader = kb.reader()
        for version in (1, 2):
            rewrite(home, version, first=version)
            another_process("sync")
        with pytest.raises(NotBuiltError):
            reader.search("common", PUBLIC, Pipeline.parse("tfidf(ngrams=2)"))
        kb.build("tfidf(ngrams=2)")
        found = kb.search("common", PUBLIC, 20, "tfidf(ngrams=2)")
        assert sorted(hit.text for hit in found.hits) == [f"common version2 number{i}" for i in range(2, 8)]


def test_generation_of_a_live_reader_is_not_swept_and_that_of_a_dead_one_is(home: Home) -> None:
    home.configure(f"{WORDS}\n[sync]\nkeep_generations = 1\n")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(home.folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin and holder.stdout
    assert holder.stdout.readline() == "1 6\n"
    for version in (1, 2, 3):
        rewrite(home, version)
        home.sync()
    with home.open() as kb:
        assert [one.number for one in kb.generations()] == [1, 4]
    holder.stdin.write("again\n")
    holder.stdin.flush()
    assert holder.stdout.readline() == "1 6\n", "the reader's own generation is whole"
    holder.kill()
    holder.communicate()
    rewrite(home, 4)
    home.sync()
    with home.open() as kb:
        assert [one.number for one in kb.generations()] == [5]
        assert len(kb.catalogue.members(1)) == 0
    assert len(list((home.folder / ".surefind/indexes").iterdir())) == 2


HOLD = """
import sys
from surefind import Access, KnowledgeBase
kb = KnowledgeBase.open(sys.argv[1])
reader = kb.reader()
while True:
    found = reader.search("common", Access.public(), kb.pipeline(), 20)
    print(found.generation, sum("version0" in hit.text for hit in found.hits), flush=True)
    if not sys.stdin.readline():
        break
"""


def test_reader_that_nobody_holds_lets_go_of_its_generation(home: Home) -> None:
    home.configure(f"{WORDS}\n[sync]\nkeep_generations = 1\n")
    with home.open() as kb:
        for version in (1, 2, 3):
            rewrite(home, version)
            kb.sync()
            kb.search("common", PUBLIC)
        rewrite(home, 4)
        kb.sync()
        assert len(kb.generations()) <= 2, "the current one, and the one that the reader held while it was swept"


# ---------------------------------------------------------------- switching


def test_new_generation_is_opened_in_the_background(home: Home, another_process: Callable[[str], None]) -> None:
    with home.open() as kb:
        assert kb.search("common", PUBLIC).generation == 1
        rewrite(home, 1)
        another_process("sync")
        first = kb.search("common", PUBLIC, 20)
        assert {hit.text.split()[1] for hit in first.hits} == {f"version{first.generation - 1}"}
        until(lambda: kb.search("common", PUBLIC).generation == 2)
        assert {hit.text.split()[1] for hit in kb.search("common", PUBLIC, 20).hits} == {"version1"}


def test_request_ends_on_the_reader_it_began_with(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync in the middle of a search: between ranking and reading the texts."""
    from surefind.engine.search import reader as module

    with home.open() as kb:
        kb.search("common", PUBLIC)
        real = module.hits_of

        def late(*given: object) -> object:
            monkeypatch.setattr(module, "hits_of", real)
            rewrite(home, 1)
            kb.sync()
            assert kb.search("common", PUBLIC).generation == 2
            return real(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(module, "hits_of", late)
        found = kb.search("common", PUBLIC, 20)
    assert found.generation == 1
    assert {hit.text.split()[1] for hit in found.hits} == {"version0"}


def test_generation_without_its_indexes_does_not_take_the_place_of_one_that_answers(
    home: Home, another_process: Callable[[str], None]
) -> None:
    with home.open() as kb:
        assert kb.search("common", PUBLIC).generation == 1
        rewrite(home, 1)
        another_process("sync")
        another_process("drop")
        for _ in range(40):
            found = kb.search("common", PUBLIC, 20)
            assert found.generation == 1
            assert len(found.hits) == 6
            time.sleep(0.02)
        current = kb._current(None)
        until(lambda: "no index for bm25" in current.problem)
        another_process("sync")
        until(lambda: kb.search("common", PUBLIC).generation == 2)
        assert current.problem == ""


def test_threads_see_whole_generations_while_another_process_writes(
    home: Home, another_process: Callable[[str], None]
) -> None:
    wrong: list[object] = []
    seen: set[int] = set()
    stop = threading.Event()

    def search(kb: KnowledgeBase) -> None:
        while not stop.is_set():
            try:
                found = kb.search("common", PUBLIC, 50)
                seen.add(found.generation)
                version = found.generation - 1
                expected = {f"common version{version} number{i}" for i in range(6 + version)}
                if {hit.text for hit in found.hits} != expected:
                    wrong.append((found.generation, found.hits))
            except Exception as error:
                wrong.append(error)

    with home.open() as kb:
        threads = [threading.Thread(target=search, args=(kb,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for version in range(1, 13):
            rewrite(home, version)
            another_process("sync")
        until(lambda: 13 in seen)
        stop.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert len(seen) >= 2


def test_threads_and_switches_leave_no_connection_open(home: Home) -> None:
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0  # noqa: PTH208

    with home.open() as kb:
        counts = []
        for _ in range(40):
            kb.rollback(kb.generations()[0].number)
            thread = threading.Thread(target=lambda: kb.search("common", PUBLIC))
            thread.start()
            thread.join()
            counts.append(open_files())
        assert counts[-1] <= counts[2]  # what earlier tests left open may be closed meanwhile


def test_passage_of_another_generation_is_an_error_and_not_another_passage(home: Home) -> None:
    with home.open() as kb:
        old = kb.reader().view.spans().ids.tolist()
        rewrite(home, 1)
        kb.sync()
        with pytest.raises(StoreError, match="another generation"):
            kb.reader().view.chunks(old[:1], Access.owner())


# ---------------------------------------------------------------- optional stages


def test_reranker_that_raises_anything_leaves_the_ranking_before_and_says_so(
    home: Home, toys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import toy_stages

    for error in (ValueError("bad shape"), IndexError(), MemoryError("no room"), RuntimeError("broken plugin")):

        def raises(*given: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(toy_stages.Failing, "rerank", raises)
        with home.open() as kb:
            found = ask(kb, "common", pipeline="bm25 >> failing")
            plain = ask(kb, "common")
        assert [hit.id for hit in found.hits] == [hit.id for hit in plain.hits]
        (entry,) = [entry for entry in found.trace if entry.stage == "rerank"]
        assert entry.note == f"fell back: {type(error).__name__}: {error}"
