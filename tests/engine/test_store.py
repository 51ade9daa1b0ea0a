"""The knowledge base on disk: one writer, whole generations, damage, crashes, a full disk."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from exam_helpers import surefind
from helpers import WORDS, Home, ask, times_slower
from surefind import Access
from surefind.base.errors import (
    DamagedError,
    DiskFullError,
    LockedError,
    NewerStoreError,
    NotBuiltError,
    NothingIndexedError,
    StoreError,
)
from surefind.base.types import Document
from surefind.engine.store.catalogue import Catalogue
from surefind.engine.store.indexes import IndexStore
from surefind.engine.store.lock import training_lock, writer_lock
from surefind.engine.store.versions import content_hash
from surefind.kb.integrity import remove_damaged


@pytest.fixture
def two(home: Home) -> Home:
    home.write("docs/a.md", "alpha common")
    home.write("docs/b.md", "beta common")
    home.sync("docs")
    return home


def index_files(home: Home) -> list[Path]:
    return sorted(path for path in (home.folder / ".surefind/indexes").rglob("*") if path.is_file())


# ---------------------------------------------------------------- writers and readers


def test_second_writer_is_told_who_the_first_is(two: Home) -> None:
    with writer_lock(two.folder / ".surefind"), pytest.raises(LockedError) as caught:
        two.sync()
    assert f"Process {os.getpid()} (" in str(caught.value)
    assert "Wait until it ends" in str(caught.value)


def test_lock_of_a_dead_process_is_no_lock(two: Home) -> None:
    code = f"""
import os
from pathlib import Path
from surefind.engine.store.lock import writer_lock
with writer_lock(Path({str(two.folder / ".surefind")!r})):
    os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert two.sync().unchanged == 2


def test_lock_is_free_again_after_an_error(two: Home) -> None:
    with pytest.raises(RuntimeError), writer_lock(two.folder / ".surefind"):
        raise RuntimeError
    assert two.sync().unchanged == 2


def test_searching_needs_no_lock(two: Home) -> None:
    with writer_lock(two.folder / ".surefind"):
        assert two.found("alpha") == ["a.md"]


def test_reader_sees_the_old_generation_until_the_new_one_is_whole(two: Home) -> None:
    """At every step that a sync reports, another reader's answer is the old one."""
    for name in ("a", "b", "c"):
        two.write(f"docs/{name}.md", f"common new {name}", age=30)
    during: list[list[str]] = []
    with two.open() as reader, two.open() as writer:
        before = [hit.id for hit in ask(reader, "common").hits]

        def look(what: str, done: int, total: int) -> None:
            during.append([hit.id for hit in ask(reader, "common").hits])

        writer.sync(report=look)
        reader.refresh()
        after = ask(reader, "common").hits
    assert len(during) >= 3
    assert during == [before] * len(during)
    assert sorted(hit.text for hit in after) == ["common new a", "common new b", "common new c"]


def test_new_reader_during_a_sync_sees_the_old_generation(two: Home) -> None:
    two.write("docs/a.md", "gamma common", age=30)
    during: list[list[str]] = []
    with two.open() as writer:
        writer.sync(report=lambda what, done, total: during.append(two.found("alpha gamma")))
    assert during == [["a.md"]] * len(during)
    assert two.found("alpha") == []


def test_searches_in_other_threads_are_whole_while_syncs_run(home: Home) -> None:
    def write(version: int) -> None:
        for i in range(8):
            home.write(f"docs/{i}.md", f"common version{version}", age=100 - version)

    write(0)
    home.sync("docs")
    stop, seen = threading.Event(), []

    def search() -> None:
        with home.open() as kb:
            while not stop.is_set():
                seen.append([hit.text for hit in ask(kb, "common", k=20).hits])

    thread = threading.Thread(target=search)
    thread.start()
    try:
        for version in range(1, 6):
            write(version)
            home.sync()
    finally:
        stop.set()
        thread.join()
    assert seen
    assert all(len(texts) == 8 and len(set(texts)) == 1 for texts in seen)


def test_open_reader_follows_new_generations(two: Home) -> None:
    with two.open() as reader:
        assert ask(reader, "gamma").hits == ()
        two.write("docs/a.md", "gamma", age=30)
        two.sync()
        for _ in range(600):  # opened in the background
            if found := [hit.document for hit in ask(reader, "gamma").hits]:
                break
            time.sleep(0.05)
        assert found == ["a.md"]


def test_old_generations_and_indexes_do_not_pile_up(two: Home) -> None:
    for number in range(5):
        two.write("docs/a.md", f"alpha {number}", age=50 - number)
        two.sync()
    with two.open() as kb:
        assert len(kb.history("a.md")) == len(kb.generations()) == 3
        assert kb.catalogue.db.execute("SELECT count(*) FROM texts").fetchone()[0] == 3 + 1
    assert len(list((two.folder / ".surefind/indexes").iterdir())) == 2 * 3, "a table and an index each"


# ---------------------------------------------------------------- damage


def test_store_of_a_newer_version_is_refused_with_the_way_out(two: Home) -> None:
    with sqlite3.connect(two.folder / ".surefind/catalogue.db") as db:
        db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(NewerStoreError, match=r"format 99, this one reads \d+.*pip install -U surefind"):
        two.found("alpha")


def test_store_from_before_the_first_release_is_refused_with_the_way_out(two: Home) -> None:
    with sqlite3.connect(two.folder / ".surefind/catalogue.db") as db:
        db.execute("PRAGMA user_version=4")
    db.close()
    for use in (lambda: two.found("alpha"), two.sync):
        with pytest.raises(StoreError, match=r"before the first release of Surefind \(format 4.*Move it away"):
            use()


@pytest.mark.parametrize("how", ["garbage", "truncated", "emptied", "removed"])
def test_damaged_index_file_is_rebuilt(two: Home, how: str) -> None:
    assert len(index_files(two)) == 16, "an index and a table, with a manifest each"
    for number in range(16):
        path = index_files(two)[number]
        data = path.read_bytes()
        damaged = {"garbage": data[: len(data) // 2] + b"\xa5" + data[len(data) // 2 + 1 :], "emptied": b""}
        path.write_bytes(damaged.get(how, data[: len(data) // 2]))
        if how == "removed":
            path.unlink()
        if how == "garbage":  # it has the right size: checksums find it
            with two.open() as kb:
                assert remove_damaged(kb)[1] == [path.parent.name]
        with pytest.raises(NotBuiltError, match="surefind sync"):
            two.found("alpha")
        two.sync()
        assert two.found("alpha") == ["a.md"], path
        assert sorted(two.found("common")) == ["a.md", "b.md"], path


def test_command_builds_a_damaged_index_again_if_told_so(two: Home) -> None:
    for path in index_files(two):
        path.write_bytes(b"")
    assert "Rebuild it with: surefind sync" in surefind("search", "alpha", kb=two.folder).err
    printed = surefind("search", "alpha", "--build", kb=two.folder)
    assert "a.md" in printed.out
    assert "Building the indexes for this search" in printed.err
    assert "Building" not in surefind("search", "alpha", kb=two.folder).err


@pytest.mark.parametrize("content", ["null", "[]", '{"files": {"docs.npy": 5}}'])
def test_manifest_of_another_shape_is_rebuilt(two: Home, content: str) -> None:
    for manifest in [path for path in index_files(two) if path.name == "manifest.json"]:
        manifest.write_text(content)
    with pytest.raises(NotBuiltError):
        two.found("alpha")
    two.sync()
    assert two.found("alpha") == ["a.md"]


def test_damaged_earlier_index_does_not_spoil_the_next_sync(two: Home) -> None:
    for path in index_files(two):
        if path.suffix == ".npy":
            path.write_bytes(b"\0" * path.stat().st_size)
    two.write("docs/a.md", "gamma common", age=30)
    two.sync()
    assert two.found("common") == ["a.md", "b.md"]


def test_index_of_another_format_is_no_head_start(two: Home) -> None:
    """Whole by its own manifest, but an earlier release did not write the file that this one reads."""
    (manifest,) = [path.parent / "manifest.json" for path in index_files(two) if path.name == "vocabulary.json"]
    content = json.loads(manifest.read_text())
    del content["files"]["vocabulary.json"]
    (manifest.parent / "vocabulary.json").unlink()
    manifest.write_text(json.dumps({**content, "format": 1}))
    two.write("docs/a.md", "gamma common", age=30)
    two.sync()
    assert two.found("common") == ["a.md", "b.md"]


def test_removed_indexes_are_rebuilt(two: Home) -> None:
    for path in index_files(two):
        path.unlink()
    two.sync()
    assert two.found("alpha") == ["a.md"]


def test_catalogue_that_is_no_database_gives_a_sentence(two: Home) -> None:
    (two.folder / ".surefind/catalogue.db").write_bytes(b"not a database at all" * 500)
    with pytest.raises(StoreError, match=r"is damaged: .*move the files catalogue\.db\* out"):
        two.found("alpha")


@pytest.mark.parametrize(("free", "expected"), [(0, DiskFullError), (1 << 30, DamagedError)])
def test_catalogue_on_a_full_disk_is_not_called_damaged(
    two: Home, monkeypatch: pytest.MonkeyPatch, free: int, expected: type[StoreError]
) -> None:
    """SQLite has an "I/O error" for both; whoever moved a sound catalogue away would lose it."""

    def fails(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr("surefind.engine.store.database.version", fails)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=free))
    with pytest.raises(StoreError) as caught:
        two.found("alpha")
    assert type(caught.value) is expected
    assert ("move the files" in str(caught.value)) is (expected is DamagedError)


def test_catalogue_with_damaged_pages_gives_a_sentence(home: Home) -> None:
    for i in range(20):
        home.write(f"docs/{i}.md", "alpha " * 500)
    home.sync("docs")
    path = home.folder / ".surefind/catalogue.db"
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xa5" * (len(data) - 4096))
    with pytest.raises(StoreError):
        home.found("alpha")


# ---------------------------------------------------------------- a full disk


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    def no_room(*given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(IndexStore, "save", no_room)
    return monkeypatch


def test_full_disk_is_told_in_a_sentence(two: Home, full_disk: pytest.MonkeyPatch) -> None:
    two.write("docs/a.md", "gamma common", age=30)
    with pytest.raises(DiskFullError, match="Everything indexed before is intact"):
        two.sync()


def test_full_disk_leaves_the_old_answers(two: Home, full_disk: pytest.MonkeyPatch) -> None:
    before = two.answers("common")
    two.write("docs/a.md", "gamma common", age=30)
    (two.docs / "b.md").unlink()
    with pytest.raises(DiskFullError):
        two.sync()
    assert two.answers("common") == before


def test_sync_after_a_full_disk_completes(two: Home, full_disk: pytest.MonkeyPatch) -> None:
    two.write("docs/a.md", "gamma common", age=30)
    with pytest.raises(DiskFullError):
        two.sync()
    full_disk.undo()
    assert two.sync().changed == 1
    assert two.found("gamma") == ["a.md"]
    assert two.found("alpha") == []


def test_forgetting_that_was_interrupted_can_be_done_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.write("one/a.md", "alpha")
    home.write("two/b.md", "beta")
    home.sync("one", "two")

    def no_room(*given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(IndexStore, "save", no_room)
        with pytest.raises(DiskFullError):
            home.sync(forget=[home.folder / "one"])
    home.sync(forget=[home.folder / "one"])
    assert home.found("alpha") == []


def test_a_catalogue_that_was_only_begun_is_no_knowledge_base_yet(home: Home) -> None:
    """A process that is killed while it creates the catalogue leaves an empty file of format 0."""
    home.write("docs/a.md", "alpha")
    (home.folder / ".surefind").mkdir()
    sqlite3.connect(home.folder / ".surefind" / "catalogue.db").execute("PRAGMA journal_mode=WAL").connection.close()
    with home.open() as kb, pytest.raises(NothingIndexedError, match=r"did not finish.*surefind sync"):
        kb.search("alpha", Access.owner())
    home.sync("docs")
    assert home.found("alpha") == ["a.md"]


def test_other_errors_of_the_system_are_not_called_a_full_disk(two: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(IndexStore, "save", refuse)
    two.write("docs/a.md", "gamma", age=30)
    with pytest.raises(StoreError, match="Change its permissions") as found:
        two.sync()
    assert not isinstance(found.value, DiskFullError)


# ---------------------------------------------------------------- kills

KILLS = r'''
"""Syncs in children that are killed at the n-th thing they do: an SQL statement, a flushed file, a report."""
import json, os, random, shutil, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from helpers import Home, ask
from surefind.engine.store import indexes
from surefind.engine.store import catalogue

home = Home(Path(sys.argv[1]))

def write(version):
    for i in range(12):
        home.write(f"docs/{i}.md", f"common version{version} number{i}", age=100 - version)

def versions():
    with home.open() as kb:
        return [hit.text.split()[1] for hit in ask(kb, "common", k=20).hits]

def sync_in_child(last):
    """Sync, and die before step `last`. Gives (signal, steps)."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        steps = 0
        def step(*_):
            nonlocal steps
            steps += 1
            if steps == last:
                os.kill(os.getpid(), signal.SIGKILL)
        flush = indexes._flush
        indexes._flush = lambda path: (step(), flush(path))
        opened = catalogue.Catalogue.__init__
        def traced(self, *given, **named):
            opened(self, *given, **named)
            if self.database._writing is not None:  # the steps of the writer
                self.db.set_trace_callback(step)
        catalogue.Catalogue.__init__ = traced
        with home.open() as kb:
            kb.sync(report=step)
        os.write(into, str(steps).encode())
        os._exit(0)
    os.close(into)
    status = os.waitpid(pid, 0)[1]
    steps = os.read(out, 20)
    os.close(out)
    return os.WTERMSIG(status), int(steps or 0)

write(0)
home.sync("docs")
write(1)
_, total = sync_in_child(last=-1)
rows = []
for version, last in enumerate(sorted(random.Random(7).sample(range(2, total), 5)), 2):
    write(version)
    killed, _ = sync_in_child(last)
    after_kill = versions()
    report = home.sync()
    rows.append([killed, version, after_kill, versions(), report.documents])
leftovers = [p.name for p in (home.folder / ".surefind/indexes").iterdir() if p.name.startswith(".")]
print(json.dumps({"total": total, "rows": rows, "leftovers": leftovers}))
'''


def test_kill_at_any_moment_leaves_a_whole_generation_and_the_next_sync_completes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLS, str(tmp_path), str(Path(__file__).parents[1])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["total"] > 50
    assert outcome["leftovers"] == []
    for killed, version, after_kill, after_sync, documents in outcome["rows"]:
        assert killed == 9
        assert after_kill in ([f"version{version - 1}"] * 12, [f"version{version}"] * 12)
        assert after_sync == [f"version{version}"] * 12
        assert documents == 12


def test_interrupted_first_sync_leaves_an_empty_knowledge_base_that_the_next_fills(home: Home) -> None:
    home.write("docs/a.md", "alpha")

    def stop(what: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), home.open() as kb:
        kb.sync(home.docs, report=stop)
    assert home.sync("docs").added == 1
    assert home.found("alpha") == ["a.md"]


def test_settings_are_read_when_the_knowledge_base_is_opened(two: Home) -> None:
    with two.open() as kb:
        two.configure(WORDS.replace("words", "letters"))
        assert list(kb.settings.pipelines) == ["words"]
    with two.open() as kb:
        assert list(kb.settings.pipelines) == ["letters"]


@pytest.mark.growth
def test_time_to_read_the_passages_grows_with_a_document_and_not_with_its_square(home: Home) -> None:
    def synced(name: str, words: int) -> Home:
        made = Home(home.folder / name, WORDS + '[index]\nchunk = "fixed(tokens=1, overlap=0)"\nenrich = []\n')
        made.write("docs/a.txt", " ".join(f"word{i:06}" for i in range(words)))
        made.sync("docs")
        return made

    def texts(made: Home) -> list[str]:
        with made.open() as kb:
            view = kb.reader().view
            return [chunk.text for chunk in view.chunks(view.spans().ids.tolist(), Access.owner())]

    long, short = synced("long", 16_000), synced("short", 1_000)
    assert texts(long) == [f"word{i:06}" for i in range(16_000)]
    assert times_slower(lambda: texts(long), lambda: texts(short), enough=100) <= 100  # the square would be 256


def test_a_name_is_trained_once_at_a_time_and_a_crash_leaves_no_lock(tmp_path: Path) -> None:
    hold = "import sys, pathlib; from surefind.engine.store.lock import training_lock\n"
    hold += f"with training_lock(pathlib.Path({str(tmp_path)!r}), 'mine'): print('held', flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, "train", "encoder"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout and holder.stdout.readline() == "held\n"
        told = (
            rf"^Process {holder.pid} \(.*train encoder, since .*\) is training 'mine'\. Wait until it ends, stop it, or"
        )
        with pytest.raises(LockedError, match=told), training_lock(tmp_path, "mine"):
            pass
        with training_lock(tmp_path, "another"):
            pass
    finally:
        holder.kill()
        holder.communicate()
    with training_lock(tmp_path, "mine"):
        pass


ODD = ("plain", "a\x1fb", "a\x1eb", "a\x00b", "", "None", "ü\x1f\x1e\x00")


def test_digest_of_a_version_covers_odd_values(tmp_path: Path) -> None:
    """A title may contain what separates the values of a checksum."""
    catalogue = Catalogue(tmp_path / ".surefind")
    for number, title in enumerate(ODD):
        document = Document(f"{number}.md", "text", title, "markdown", {}, ())
        catalogue.versions.add(document, content_hash(document), (1, f"{number}.md", 4, 0, 0, "", ""), 1)
    assert len(catalogue.members(1)) == len(ODD)
    for number in range(len(ODD)):
        catalogue.db.execute("UPDATE versions SET title = title || '!' WHERE row = ?", (number + 1,))
        with pytest.raises(DamagedError, match=f"{number}.md"):
            catalogue.members(1)
        catalogue.db.execute("UPDATE versions SET title = ? WHERE row = ?", (ODD[number], number + 1))
    catalogue.close()
