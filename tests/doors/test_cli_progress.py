"""Progress: bars on a terminal, plain lines elsewhere, and never a word of it on stdout."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

from helpers import Home
from surefind.doors.events import ProgressLog


class Log:
    """Lines under a clock that the test turns."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.now = 0.0
        self.lines = ProgressLog(lambda event: self.said.append(str(event)), lambda: self.now)

    def at(self, now: float, what: str, done: int, total: int) -> None:
        self.now = now
        self.lines.report(what, done, total)


def test_start_and_finish_are_said_with_counts_and_seconds() -> None:
    log = Log()
    log.at(0, "Reading", 0, 1500)
    log.at(2, "Reading", 1500, 1500)
    log.at(2.5, "Indexing bm25", 0, 10)
    log.at(3, "Indexing bm25", 10, 10)
    log.lines.close()
    assert log.said == [
        "Reading: started, 1,500 to do",
        "Reading: finished, 1,500 in 2.0 s",
        "Indexing bm25: started, 10 to do",
        "Indexing bm25: finished, 10 in 0.5 s",
    ]


def test_between_there_is_a_line_every_ten_seconds() -> None:
    log = Log()
    for second in range(36):
        log.at(second, "Reading", second, 50)  # less than a minute
    left = {10: "about 40 seconds", 20: "about 30 seconds", 30: "about 20 seconds"}
    assert log.said[1:] == [f"Reading: {n} of 50 after {n} s, {text} left" for n, text in left.items()]


def test_the_time_of_long_work_is_said_early() -> None:
    log = Log()
    for step in range(20):
        log.at(step / 2, "Reading", step, 1000)
    assert log.said == ["Reading: started, 1,000 to do", "Reading: 6 of 1,000 after 3 s, about 8 minutes left"]


def test_an_end_that_is_reported_twice_is_said_once() -> None:
    """An index reports its new vectors, all of them, and then itself."""
    log = Log()
    log.at(0, "Indexing dense", 0, 444)
    log.at(1, "Indexing dense", 20, 20)
    log.at(2, "Indexing dense", 444, 444)
    log.lines.close()
    assert log.said == ["Indexing dense: started, 444 to do", "Indexing dense: finished, 444 in 2.0 s"]


def test_work_that_begins_again_is_said_again() -> None:
    log = Log()
    for total in (5, 3):
        log.at(0, "Reading", 0, total)
        log.at(0, "Reading", total, total)
    log.lines.close()
    assert [line.partition(" in")[0] for line in log.said] == [
        "Reading: started, 5 to do",
        "Reading: finished, 5",
        "Reading: started, 3 to do",
        "Reading: finished, 3",
    ]


def test_work_that_was_done_before_it_started_has_one_line() -> None:
    log = Log()
    log.at(0, "Scoring", 3, 3)
    log.lines.close()
    assert log.said == ["Scoring: finished, 3 in 0.0 s"]


def test_work_without_a_last_report_finishes_unless_something_failed() -> None:
    for failed, last in ((False, "Chunking: finished, 3 in 0.0 s"), (True, "Chunking: started, 3 to do")):
        log = Log()
        log.at(0, "Chunking", 0, 3)
        log.lines.close(failed)
        assert log.said[-1] == last


def test_threads_may_report_at_once() -> None:
    log = Log()
    threads = [threading.Thread(target=lambda: [log.lines.report("x", n, 1000) for n in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log.said == ["x: started, 1,000 to do"]


# ---------------------------------------------------------------- in a process of its own


def command(home: Home, *words: str | Path) -> list[str]:
    home.write("docs/a.md", "# Cash\n\nThe teller counts cash.")
    return [sys.executable, "-m", "surefind", *map(str, words), "--kb", str(home.folder)]


def test_piped_sync_says_its_stages_on_stderr(home: Home) -> None:
    done = subprocess.run(command(home, "sync", home.docs), capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["Reading"] * 2 + ["Indexing bm25"] * 2
    assert re.fullmatch(r"Reading: finished, 1 in \d+\.\d s", lines[1])
    assert "Reading" not in done.stdout and "\x1b" not in done.stderr


def test_stdout_stays_json(home: Home) -> None:
    done = subprocess.run(command(home, "sync", home.docs, "--json"), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["added"] == 1
    assert "Reading: started" in done.stderr


def test_a_terminal_gets_bars_and_a_file_beside_it_gets_the_output(home: Home, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with (tmp_path / "out.txt").open("wb") as out:
        started = subprocess.Popen(
            command(home, "sync", home.docs), stdout=out, stderr=theirs, env={**os.environ, "TERM": "xterm"}
        )
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            shown += part
        assert started.wait(60) == 0
    os.close(ours)
    assert b"started" not in shown and b"\x1b[" in shown
    assert (tmp_path / "out.txt").read_text(encoding="utf-8").startswith("1 added")
