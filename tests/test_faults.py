"""The scripts of `make faults` in short, so that they keep working, and planted faults, so that they can fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FAULTS = Path(__file__).parent.parent / "benchmarks" / "faults"

PLANTED = """
import os
import fuzz
from _target import Target

def work(number):
    if number == 3:
        raise KeyError("planted")
    if number == 5:
        os.abort()
    if number == 7:
        while True:
            pass
    if number == 9:
        bytearray(fuzz.MEMORY)

fuzz._case = lambda target, seed, number: number
target = Target("planted", 1, None, work, seconds=0.2)
print(sorted(fuzz._Worker(target, 1, 11).run().elements()))
"""

HARM = """
import sys
from pathlib import Path
import kill
shop = kill.Workshop(Path(sys.argv[1]))
nothing = kill.Undisturbed(["other"], ["answers"], 0, {"other": "files"}, None)
shop.fill()
print(kill.harm(kill.Scenario("sync", ("sync", "docs")), ["sync", "docs"], shop, nothing, doctor=False))
"""
"""Compares a synced folder with one that it is not."""


def python(*words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(FAULTS), str(FAULTS.parents[1] / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=600, env=environment)


@pytest.mark.parametrize("cases", [20, pytest.param(200, marks=pytest.mark.long)])
def test_fuzzer_runs_every_target(cases: int) -> None:
    done = python(str(FAULTS / "fuzz.py"), "--cases", str(cases), "--seed", "5")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 findings in" in done.stdout.splitlines()[-1]


def test_fuzzer_finds_errors_crashes_hangs_and_too_much_memory() -> None:
    done = python("-c", PLANTED)
    assert done.returncode == 0, done.stderr
    found = done.stdout.splitlines()[-1]
    assert "KeyError" in found
    assert "crashed (SIGABRT)" in found
    assert "more than 0.2 s" in found
    assert "MemoryError" in found


def test_harm_of_a_kill_is_seen(tmp_path: Path) -> None:
    done = python("-c", HARM, str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "searches answer neither as before nor as after" in done.stdout
    assert "index files differ" in done.stdout


def test_commands_survive_kills() -> None:
    done = python(str(FAULTS / "kill.py"), "--kills", "1", "--seed", "5", "--only", "draft retire", "--no-doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 kills did no harm" in done.stdout
