"""A knowledge base can be closed at any moment: nothing that another thread uses is closed under it."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import surefind
from helpers import Home
from http_helpers import serving
from surefind import Access
from surefind.base.errors import ClosedError
from surefind.engine.store.cache import Cache
from surefind.engine.store.database import Connection, ConnectionPool

STRESS = Path(__file__).with_name("closing_stress.py")


@pytest.fixture
def small(home: Home) -> Home:
    for number in range(8):
        home.write(f"docs/{number}.md", f"# Page {number}\n\nThe wire cutoff of page {number} is 3 p.m.\n")
    home.sync("docs")
    return home


@pytest.mark.parametrize(
    "call",
    [
        lambda kb: kb.search("wire", Access.public()),
        lambda kb: kb.documents(Access.public()),
        lambda kb: kb.sync(),
        lambda kb: kb.status(),
        lambda kb: kb.history("docs/1.md"),
        lambda kb: kb.generations(),
        lambda kb: kb.drafts.store.waiting(),
        lambda kb: kb.drafts.add_bytes("new.md", b"# New\n\nText.\n"),
        lambda kb: kb.refresh() or kb.reader(),
        lambda kb: kb.compact(),
        lambda kb: kb.rollback(1),
    ],
)
def test_calls_after_close_get_one_clear_error(small: Home, call) -> None:  # type: ignore[no-untyped-def]
    kb = small.open()
    kb.search("wire", Access.public())
    kb.close()
    kb.close()
    with pytest.raises(ClosedError, match=r"was closed\. Open it again"):
        call(kb)


def test_parts_taken_before_close_say_that_it_was_closed(small: Home) -> None:
    kb = small.open()
    catalogue, drafts, reader = kb.catalogue, kb.drafts.store, kb.reader()
    calls = (catalogue.generation, drafts.count, lambda: reader.documents(Access.public()))
    kb.drafts.add_bytes("new.md", b"# New\n\nText.\n")  # before that, drafts have no file
    for call in calls:
        call()
    kb.close()
    for call in calls:
        with pytest.raises(ClosedError):
            call()


def a_pool(folder: Path, kind: type[Connection] = Connection) -> ConnectionPool:
    return ConnectionPool(folder / "a.db", lambda path: sqlite3.connect(path, check_same_thread=False, factory=kind))


def test_a_statement_under_way_ends_before_its_connection_is_closed(tmp_path: Path) -> None:
    pool = a_pool(tmp_path)
    begun, go_on, rows = threading.Event(), threading.Event(), list[int]()

    def wait() -> int:
        begun.set()
        go_on.wait(60)
        return 1

    def read() -> None:
        with pool.connection() as connection:
            connection.create_function("wait", 0, wait)
        rows.extend(row[0] for row in pool.execute("SELECT wait() UNION ALL SELECT 2"))

    thread = threading.Thread(target=read)
    thread.start()
    assert begun.wait(60)
    pool.close()
    go_on.set()
    thread.join(60)
    assert rows == [1, 2]
    with pytest.raises(ClosedError):
        pool.execute("SELECT 1")
    assert not _open_databases(tmp_path)


def test_threads_that_end_leave_no_connection(tmp_path: Path) -> None:
    made: list[Path] = []
    pool = ConnectionPool(tmp_path / "a.db", lambda path: (made.append(path), a_pool(tmp_path)._connect(path))[1])
    for _ in range(20):
        thread = threading.Thread(target=lambda: pool.execute("SELECT 1 UNION SELECT 2").fetchone())
        thread.start()
        thread.join(60)
    for row in pool.execute("SELECT 1 UNION SELECT 2"):
        assert row == (1,)
        break
    pool.execute("SELECT 1 UNION SELECT 2").fetchall()
    with pytest.raises(sqlite3.OperationalError):
        pool.execute("SELECT nothing")
    assert len(made) == 1, "one at a time needs one connection, however its rows are read"
    together = [pool.execute("SELECT 1") for _ in range(40)]
    assert [rows.fetchone() for rows in together] == [(1,)] * 40 and len(made) == 40
    assert len(_open_databases(tmp_path)) == 16
    pool.close()
    assert not _open_databases(tmp_path)


def test_what_a_block_leaves_unfinished_is_rolled_back(tmp_path: Path) -> None:
    pool = a_pool(tmp_path)
    with pool.connection() as db:
        db.execute("CREATE TABLE t (x)")
    with pytest.raises(ZeroDivisionError), pool.connection() as db:
        db.execute("BEGIN")
        db.execute("INSERT INTO t VALUES (1)")
        raise ZeroDivisionError
    with pool.connection() as db:
        assert not db.in_transaction and db.execute("SELECT count(*) FROM t").fetchone() == (0,)
    pool.close()


def test_closing_leaves_no_file_open(small: Home) -> None:
    kb = small.open()
    idle = threading.Barrier(5), threading.Barrier(5)

    def search() -> None:
        kb.search("wire", Access.public())
        kb.drafts.store.count()
        for barrier in idle:
            barrier.wait(60)

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    idle[0].wait(60)
    assert _open_databases(small.folder)
    kb.close()
    assert not _open_databases(small.folder)
    idle[1].wait(60)
    for thread in threads:
        thread.join(60)


def _open_databases(folder: Path) -> list[str]:
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            target = str(descriptor.readlink())
            if target.startswith(str(folder)) and ".db" in target:
                found.append(target)
    return found


def test_a_closed_cache_says_so(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache" / "a.db", "rows", ["value BLOB"])
    cache.put([(b"key", b"value")])
    cache.close()
    for call in (lambda: cache.get([b"key"]), lambda: cache.put([(b"key", b"other")])):
        with pytest.raises(ClosedError):
            call()


@pytest.mark.parametrize("closes", [40, pytest.param(1000, marks=pytest.mark.long)])
def test_closes_under_16_threads_that_search_sync_warm_up_and_write_drafts(small: Home, closes: int) -> None:
    """In a process of its own, because a defect here ends the process by a signal."""
    ran = subprocess.run(
        [sys.executable, str(STRESS), str(small.folder), str(closes), "16"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, f"exit {ran.returncode}: {ran.stderr[-2000:]}"
    assert f"{closes} closes, 0 errors" in ran.stdout


def test_server_that_is_stopped_while_it_warms_up_ends_quietly(small: Home) -> None:
    for delay in (0, 0.02, 0.05, 0.1, 0.2):
        with serving(small.folder) as server:
            time.sleep(delay)
            server.process.terminate()
            assert server.process.wait(60) == -signal.SIGTERM, "it ends as the signal says, and by no other"
            log = server.log.read_text()
        assert "Traceback" not in log and "Error" not in log, log


def test_no_finalizer_closes_a_connection() -> None:
    """It would run where nobody expects it: in a thread that holds a lock, or in a fork before its exec."""
    root = Path(surefind.__file__).parent
    assert [str(path) for path in root.rglob("*.py") if "def __del__" in path.read_text("utf-8")] == []
    assert "weakref" not in (root / "engine" / "store" / "database.py").read_text("utf-8")


def test_one_place_opens_sqlite_files() -> None:
    root = Path(surefind.__file__).parent
    found = {
        str(path.relative_to(root)) for path in root.rglob("*.py") if "sqlite3.connect(" in path.read_text("utf-8")
    }
    assert found == {"engine/store/database.py"}
