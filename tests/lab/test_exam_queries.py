"""Kept queries: only if wanted, nothing restricted in them, and no search that fails or waits because of them."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from exam_helpers import surefind
from helpers import WORDS, Home
from surefind import Access, SearchResult
from surefind.base.types import Hit
from surefind.kb.queries import HITS, QueryLog
from surefind.lab.exam.store import ExamStore

KEEP = WORDS + "\n[exam]\nkeep_queries = true\n"


@pytest.fixture
def keeping(home: Home) -> Home:
    home.configure(KEEP)
    home.write("docs/wire.md", "# Wire\n\nThe wire cutoff is five o'clock.\n")
    home.write("docs/sale.md", "---\nacl: [board]\n---\n# Sale\n\nThe wire desk is sold in May.\n")
    home.sync("docs")
    return home


def log(home: Home, days: int = 90) -> QueryLog:
    return QueryLog(home.folder / ".surefind", days)


def result(query: str = "wire cutoff", hits: int = 1) -> SearchResult:
    found = tuple(Hit(n, 1.0, f"d{n}.md", "c", "t", (), 0, 9, "text", {}, {}) for n in range(1, hits + 1))
    return SearchResult(query, found, (), "bm25")


# ---------------------------------------------------------------- what is kept


def test_nothing_is_kept_unless_the_settings_say_so(keeping: Home) -> None:
    keeping.configure(WORDS)
    surefind("search", "wire cutoff", kb=keeping.folder)
    assert not log(keeping).path.exists()
    assert "Queries are not kept." in surefind("exam", "queries", kb=keeping.folder).out


def test_a_search_keeps_its_query_and_first_hits(keeping: Home) -> None:
    assert surefind("search", "wire", "cutoff", kb=keeping.folder).code == 0
    assert surefind("search", "zebra", kb=keeping.folder).code == 1
    newest, kept = surefind("exam", "queries", "--json", kb=keeping.folder).json
    assert (newest["query"], newest["hits"]) == ("zebra", [])
    assert (kept["query"], kept["groups"]) == ("wire cutoff", 0) and kept["pipeline"].startswith("bm25")
    assert [hit["document"] for hit in kept["hits"]] == ["wire.md"] and set(kept["hits"][0]) == {
        "document",
        "start",
        "end",
    }
    assert abs(kept["at"] - time.time()) < 60
    assert "wire cutoff  ->  wire.md" in surefind("exam", "queries", kb=keeping.folder).out


def test_nothing_restricted_is_kept(keeping: Home) -> None:
    found = surefind("search", "wire desk sold", "--as", "board", "--json", kb=keeping.folder).json
    assert "sale.md" in [hit["document"] for hit in found["hits"]]
    (kept,) = log(keeping).all()
    assert (kept.query, kept.groups, kept.hits) == ("wire desk sold", 1, [])
    stored = b"".join(path.read_bytes() for path in (keeping.folder / ".surefind").glob("queries.db*"))
    assert b"wire desk sold" in stored and b"sale.md" not in stored and b"board" not in stored


def test_only_the_owner_may_read_the_file(keeping: Home) -> None:
    surefind("search", "wire", kb=keeping.folder)
    assert stat.S_IMODE(log(keeping).path.stat().st_mode) == 0o600


def test_a_few_hits_are_kept(tmp_path: Path) -> None:
    kept = QueryLog(tmp_path, 90)
    assert kept.keep(result(hits=20), Access.public()) == ""
    assert len(kept.all()[0].hits) == HITS


def test_old_queries_are_deleted_at_the_next_write(tmp_path: Path) -> None:
    kept = QueryLog(tmp_path, 30)
    kept.keep(result("old one"), Access.public())
    with sqlite3.connect(kept.path) as db:
        db.execute("UPDATE kept SET at = at - 31 * 86400")
    db.close()
    kept.keep(result("new one"), Access.public())
    with sqlite3.connect(kept.path) as db:
        assert db.execute("SELECT query FROM kept").fetchall() == [("new one",)]
    db.close()


def test_clear_deletes_them_from_the_disk(keeping: Home) -> None:
    surefind("search", "wire cutoff", kb=keeping.folder)
    assert surefind("exam", "queries", "--clear", kb=keeping.folder).out == "Deleted 1 kept queries.\n"
    assert surefind("exam", "queries", "--json", kb=keeping.folder).json == []
    assert not [p for p in (keeping.folder / ".surefind").glob("queries.db*") if b"wire cutoff" in p.read_bytes()]
    assert surefind("exam", "queries", "--clear", "--json", kb=keeping.folder).json == {"deleted": 0}


# ---------------------------------------------------------------- a search goes on


def test_a_damaged_file_does_not_stop_a_search(keeping: Home) -> None:
    log(keeping).path.write_bytes(b"damaged" * 1000)
    ran = surefind("search", "wire cutoff", "--json", kb=keeping.folder)
    assert ran.code == 0 and ran.json["hits"] and "The query was not kept" in ran.err
    listed = surefind("exam", "queries", kb=keeping.folder)
    assert listed.code == 3 and "surefind exam queries --clear" in listed.err
    assert surefind("exam", "queries", "--clear", kb=keeping.folder).code == 0
    assert surefind("search", "wire cutoff", kb=keeping.folder).err == "" and len(log(keeping).all()) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_does_not_stop_a_search(keeping: Home) -> None:
    (keeping.folder / ".surefind").chmod(0o500)
    try:
        ran = surefind("search", "wire cutoff", kb=keeping.folder)
    finally:
        (keeping.folder / ".surefind").chmod(0o700)
    assert ran.code == 0 and "The query was not kept" in ran.err


def test_a_long_write_elsewhere_is_not_waited_for(keeping: Home) -> None:
    log(keeping).keep(result(), Access.public())
    other = sqlite3.connect(log(keeping).path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    started = time.monotonic()
    assert "locked" in log(keeping).keep(result(), Access.public())
    assert time.monotonic() - started < 4  # 0.2 s; SQLite itself waits for five
    other.execute("ROLLBACK")
    other.close()


def test_keeping_takes_milliseconds(tmp_path: Path) -> None:
    kept, times = QueryLog(tmp_path, 90), []
    for number in range(200):
        started = time.perf_counter()
        assert kept.keep(result(f"query {number}", 10), Access.public()) == ""
        times.append(time.perf_counter() - started)
    assert min(times) < 0.02  # 0.6 ms on an idle machine; tests share theirs


def test_processes_that_keep_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from surefind import Access, SearchResult\n"
        "from surefind.kb.queries import QueryLog\n"
        "log = QueryLog(Path(sys.argv[1]), 90)\n"
        "for n in range(40):\n"
        "    failed = log.keep(SearchResult(f'{sys.argv[2]} {n}', (), (), 'bm25'), Access.public())\n"
        "    assert not failed, failed\n"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(number)], stderr=subprocess.PIPE, text=True)
        for number in range(4)
    ]
    assert [(process.communicate()[1], process.returncode) for process in started] == [("", 0)] * 4
    assert len({kept.query for kept in QueryLog(tmp_path, 90).all()}) == 160


# ---------------------------------------------------------------- they become questions


def test_kept_queries_are_candidates(keeping: Home) -> None:
    for words in ("wire cutoff", "Wire cutoff?", "hello"):
        surefind("search", words, kb=keeping.folder)
    assert surefind("exam", "collect", "real", "--kept", kb=keeping.folder).code == 0
    candidates = ExamStore(keeping.folder / ".surefind" / "exams").candidates("real").all()
    assert [(one.text, one.source, one.asked) for one in candidates] == [("wire cutoff", "search", 2)]


def test_questions_of_people_with_groups_are_not_shown_to_judges(keeping: Home) -> None:
    surefind("search", "wire cutoff", kb=keeping.folder)
    surefind("search", "zebra salaries of the board", "--as", "board", kb=keeping.folder)
    surefind("search", "all salaries of everybody", "--as", "*", kb=keeping.folder)
    done = surefind("exam", "collect", "real", "--kept", kb=keeping.folder)
    assert "Questions added to real: 1." in done.out and "2 left out: asked by somebody with access groups" in done.out
    candidates = ExamStore(keeping.folder / ".surefind" / "exams").candidates("real").all()
    assert [one.text for one in candidates] == ["wire cutoff"]
