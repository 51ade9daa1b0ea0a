"""The server does not freeze: no Python code runs between fork and exec, and a stop ends it, whatever hangs."""

from __future__ import annotations

import ast
import contextlib
import http.client
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

import surefind
from cases import mostly_long
from helpers import Home
from http_helpers import a_bank
from surefind.doors import listening

HERE = Path(__file__).parents[1]
FREEZE = HERE.parent / "benchmarks" / "faults" / "freeze.py"
FORKS = {
    "create_subprocess_exec", "create_subprocess_shell", "subprocess_exec", "subprocess_shell", "fork", "forkpty",
    "ProcessPoolExecutor", "Process", "get_context", "set_start_method", "system", "popen", "spawn",
}  # fmt: skip
"""Names of what starts a process otherwise than `subprocess` does."""
AFTER_FORK = {"preexec_fn", "user", "group", "extra_groups"}
"""Arguments of `subprocess.Popen` with which it forks, or runs Python code after the fork."""
MODULES = {"os", "asyncio", "multiprocessing", "pty", "concurrent", "futures", "context", "loop"}


def _starts(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Attribute) and node.attr in FORKS:
            owner = node.value
            name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
            if name in MODULES or node.attr.startswith("create_subprocess"):
                yield f"{path.name}:{node.lineno} {node.attr}"
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            yield from (f"{path.name}:{node.lineno} {name.name}" for name in node.names if name.name in FORKS)
        if isinstance(node, ast.Call) and "subprocess" in ast.unparse(node.func):
            yield from (f"{path.name}:{node.lineno} {word.arg}" for word in node.keywords if word.arg in AFTER_FORK)


def test_nothing_runs_python_code_between_fork_and_exec() -> None:
    """CPython's `subprocess` runs C code only in the child, unless `preexec_fn` is given. uvloop's processes run
    `PyOS_AfterFork_Child`, which clears the data of all threads."""
    root = Path(surefind.__file__).parent
    assert [start for path in sorted(root.rglob("*.py")) for start in _starts(path)] == []


def test_the_scan_knows_what_forks(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    lines = (
        "asyncio.create_subprocess_exec('a')", "os.fork()", "multiprocessing.Process(target=f)", "os.system('a')",
        "from multiprocessing import Process", "subprocess.Popen(['a'], preexec_fn=f)", "loop.subprocess_exec(p, 'a')",
    )  # fmt: skip
    for line in lines:
        path.write_text(line)
        assert list(_starts(path)), line


def test_programs_start_without_python_code_after_the_fork(tmp_path: Path) -> None:
    note = tmp_path / "note"
    ran = subprocess.run([sys.executable, str(HERE / "forkless.py"), str(note)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    *forked, started = note.read_text().splitlines()
    assert set(forked) == {"a_fork", *(["a_subprocess_of_uvloop"] if find_spec("uvloop") else [])}
    assert started == (
        "a_fork a_subprocess_of_uvloop a_job a_job_of_uvloop a_reader_of_files a_search_process git_program an_editor"
    )


@pytest.mark.parametrize("jobs", [4, pytest.param(20, marks=pytest.mark.long)])
def test_the_server_answers_while_jobs_start_and_people_read_preview_and_save(jobs: int) -> None:
    """A small form of the measurement in docs/results/safety.md. Others use this machine, so the bar is not held here:
    a frozen server answers nothing at all."""
    command = [sys.executable, str(FREEZE), "--jobs", str(jobs), "--bar", "15"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stdout + ran.stderr


HANGS = '''
import asyncio, ctypes, sys
from surefind.doors import listening
from surefind.doors.http.jobs import Jobs

def lock_for_ever(where):
    """Waits in C for a lock that this thread holds. No signal ends it, and others can run Python meanwhile."""
    mutex, libc = ctypes.create_string_buffer(64), ctypes.CDLL(None)
    libc.pthread_mutex_lock(mutex)
    print("hangs", where, file=sys.stderr, flush=True)
    libc.pthread_mutex_lock(mutex)

async def loop(self):
    lock_for_ever("in the event loop")

async def soon(self, *_, **__):
    lock_for_ever("before the signal")

def late(self):
    lock_for_ever("after the server")

how = sys.argv.pop(1)
listening.STOP_SECONDS = float(sys.argv.pop(1))
if how == "stopping":
    Jobs.close = loop
elif how == "before":
    Jobs.start = soon
elif how == "after":
    from surefind.kb import KnowledgeBase
    KnowledgeBase.close = late
elif how == "thread":
    Jobs.close = lambda self: asyncio.get_running_loop().run_in_executor(None, lock_for_ever, "in a thread")
from surefind.__main__ import main
main()
'''


@dataclass
class Hanging:
    """A server of which one part hangs when it is used."""

    process: subprocess.Popen[bytes]
    log: Path

    def ask(self, method: str, path: str, body: str = "") -> int:
        """Returns the status of the answer; 0 if there is none soon."""
        address = self.log.read_text().partition("on http://")[2].split()[0]
        line = http.client.HTTPConnection(address, timeout=20 if method == "GET" else 2)
        try:
            line.request(method, path, body, {"Content-Type": "application/json"})
            return line.getresponse().status
        except OSError:
            return 0
        finally:
            line.close()

    def wait_for(self, words: str) -> None:
        for _ in range(1200):
            if words in self.log.read_text():
                return
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise AssertionError(f"no {words!r} in {self.log.read_text()}")


@contextlib.contextmanager
def _hanging(bank: Home, how: str, seconds: float = 3.0) -> Iterator[Hanging]:
    log = bank.folder / "hangs.log"
    command = [sys.executable, "-c", HANGS, how, str(seconds), "serve", "--kb", str(bank.folder), "--port", "0"]
    with log.open("w") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            server = Hanging(process, log)
            server.wait_for("To know who calls")
            yield server
        finally:
            process.kill()


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return a_bank(Home(tmp_path_factory.mktemp("hangs")))


STOPS = [
    ("stopping", signal.SIGTERM), ("nothing", signal.SIGINT), ("before", signal.SIGINT),
    ("nothing", signal.SIGTERM), ("before", signal.SIGTERM), ("thread", signal.SIGTERM), ("stopping", signal.SIGINT),
    ("after", signal.SIGINT), ("thread", signal.SIGINT),
]  # fmt: skip
"""What hangs, and what stops it. SIGTERM ends the process before the knowledge base is closed."""


@pytest.mark.parametrize(("how", "number"), mostly_long(STOPS, 3))
def test_a_stop_ends_the_process_whatever_hangs(bank: Home, how: str, number: signal.Signals) -> None:
    waits = how != "nothing" and (how, number) != ("before", signal.SIGTERM)
    longest = 3.0 if waits else listening.STOP_SECONDS  # what hangs is waited for once as long as users wait
    with _hanging(bank, how, longest) as server:
        if how == "before":
            server.ask("POST", "/v1/jobs", '{"kind": "sync"}')
            server.wait_for("hangs")
        began = time.monotonic()
        server.process.send_signal(number)
        server.process.wait(60)
        took = time.monotonic() - began
        log = server.log.read_text()
    assert took < 15, "ten seconds, and some more on a loaded machine"
    if how == "nothing":
        assert "Thread 0x" not in log
    else:
        assert server.process.returncode == 1 and "Thread 0x" in log and "lock_for_ever" in log, log


def test_sigusr1_prints_what_the_threads_do(bank: Home) -> None:
    with _hanging(bank, "before") as server:
        server.process.send_signal(signal.SIGUSR1)
        server.wait_for("Current thread")
        with ThreadPoolExecutor(4) as threads:  # stacks that change while they are printed ended the process
            asked = [threads.submit(server.ask, "GET", "/v1/search?query=wire") for _ in range(100)]
            for _ in range(100):
                server.process.send_signal(signal.SIGUSR1)
                time.sleep(0.01)
        assert {answer.result() for answer in asked} == {200}, "the server goes on"
        server.ask("POST", "/v1/jobs", '{"kind": "sync"}')
        server.wait_for("hangs")
        server.process.send_signal(signal.SIGUSR1)
        server.wait_for("lock_for_ever")
        server.process.kill()
