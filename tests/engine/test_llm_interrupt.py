"""Ctrl-C while a language model hangs: the command ends at once, with one line, and what was paid for is kept.

A call that hangs would take `timeout` (60 s, three times tried again); a command must be gone long before. The commands
run in processes of their own, and get a real signal.
"""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers import WORDS, Home
from llm_server import HANGS, LLMServer
from surefind.base import running
from surefind.base.running import Workers, still_working

pytest.importorskip("httpx")

# A process that was started in the background of a shell hands its children an interrupt that is ignored.
COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from surefind.doors.cli import main
main()
"""
STOPPED = "surefind: Stopped. Finished work is kept; run the same command to continue.\n"
TEXT = (
    "The vault number {} of Alder Row holds {} chests of cash and a ledger. It was opened in the year {} by two "
    "members of the board, who signed the log and locked it again before the branch was closed for the night."
)
PATIENCE = HANGS / 2
"""Far more than a slow machine needs, and less than a call that hangs."""


@pytest.fixture
def home(tmp_path: Path, llm: LLMServer) -> Home:
    made = Home(tmp_path / "kb", f'{WORDS}\n[llm]\nmodel = "{llm.model}"\nconcurrency = 2\ncheck = false\n')
    for i in range(8):
        made.write(f"docs/{i}.md", f"# Note {i}\n\n{TEXT.format(i, 10 + i, 1900 + i)}\n")
    made.sync("docs")
    return made


def wait_until(true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 4 * PATIENCE  # kernels may be compiled first
    while not true():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.01)


def interrupted(home: Home, llm: LLMServer, calls: int, *words: str) -> str:
    """What a command wrote to stderr that got Ctrl-C when `calls` calls had been made."""
    command = [sys.executable, "-c", COMMAND, *words, "--kb", str(home.folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: len(llm.bodies) >= calls, process)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 130
    return told


def kept(home: Home) -> int:
    with sqlite3.connect(home.folder / ".surefind" / "cache" / "answers.db") as cache:
        return int(cache.execute("SELECT count(*) FROM completions").fetchone()[0])


def test_a_search_ends(home: Home, llm: LLMServer) -> None:
    llm.script = ["hang"]
    assert (
        interrupted(home, llm, 1, "search", "cash", "--rerank", "llm_listwise(reverse=false, top=5, keep=3)") == STOPPED
    )


def test_a_sync_ends_and_pays_for_no_answer_twice(home: Home, llm: LLMServer) -> None:
    """A document's first chunk is asked for alone, the others two at a time: by the fifth, three answers are there."""
    home.configure(
        (home.folder / "surefind.toml").read_text() + '\n[index]\nchunk = "sentence_window"\nenrich = ["llm_context"]\n'
    )
    home.write("docs/long.md", "# Long\n\n" + " ".join(f"Sentence number {i} is about cash." for i in range(9)))
    llm.script = ["good", "good", "good", "hang", "hang"]
    assert interrupted(home, llm, 5, "sync", "--yes").endswith(STOPPED)
    assert kept(home) == 3


def test_an_exam_ends_and_keeps_what_was_answered(home: Home, llm: LLMServer) -> None:
    llm.script = ["garbage", "garbage", "hang", "hang"]
    options = ("--family", "sf1h", "--per-family", "4", "--passages", "sections", "--yes")
    assert interrupted(home, llm, 4, "exam", "write", *options).endswith(STOPPED)
    assert kept(home) == 2


def test_a_benchmark_ends(home: Home, llm: LLMServer) -> None:
    llm.script = ["hang"] * 9
    plan = ("--per-family", "1", "--pipeline", "bm25 >> llm_listwise(reverse=false, top=5, keep=3)")
    assert interrupted(home, llm, 1, "bench", *plan, "--yes").endswith(STOPPED)


def test_results_come_in_order_and_notes_are_heard() -> None:
    def work(item: int) -> int:
        running.note(f"saw {item}")
        return -item

    with running.collecting() as collected, Workers(3) as workers:
        assert list(workers.map(work, range(10))) == [-i for i in range(10)]
    assert sorted(collected.notes) == [f"saw {i}" for i in range(10)]


def test_an_error_drops_what_has_not_begun_and_waits_for_what_has() -> None:
    begun, done, failed = [], [], threading.Event()

    def work(item: int) -> None:
        begun.append(item)
        if item == 0:
            failed.set()
            raise ValueError
        failed.wait()
        time.sleep(0.05)
        done.append(item)

    with pytest.raises(ValueError), Workers(2) as workers:
        list(workers.map(work, range(1000)))
    assert sorted(begun) == [0, *sorted(done)]
    assert len(begun) < 1000


def test_ctrl_c_leaves_what_hangs() -> None:
    gate = threading.Event()
    with pytest.raises(KeyboardInterrupt), Workers(2) as workers:
        workers.map(lambda item: gate.wait(), range(5))
        raise KeyboardInterrupt
    assert still_working()
    gate.set()
    end = time.monotonic() + PATIENCE
    while still_working() and time.monotonic() < end:
        time.sleep(0.01)
    assert not still_working()
