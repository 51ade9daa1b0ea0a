"""The scripts of `make faults` in short, so that they keep working, and planted faults, so that they can fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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

counter = iter(range(1000))
target = Target("planted", 1, lambda chance: next(counter), work, seconds=0.2)
print(sorted(fuzz._Worker(target, 1, 11).run().elements()))
"""


def python(*words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(FAULTS), str(FAULTS.parents[1] / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=120, env=environment)


def test_fuzzer_runs_every_target() -> None:
    done = python(str(FAULTS / "fuzz.py"), "--cases", "300", "--seed", "5")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 findings in" in done.stdout.splitlines()[-1]


def test_fuzzer_finds_errors_crashes_hangs_and_too_much_memory() -> None:
    """A worker that died is followed by one that makes its cases from the start, so it counts on from 0."""
    done = python("-c", PLANTED.replace("next(counter)", "int(chance.random() * 0) + next(counter)"))
    assert done.returncode == 0, done.stderr
    found = done.stdout.splitlines()[-1]
    assert "KeyError" in found
    assert "crashed (SIGABRT)" in found
    assert "more than 0.2 s" in found
    assert "MemoryError" in found


def test_commands_survive_kills() -> None:
    done = python(str(FAULTS / "kill.py"), "--kills", "3", "--seed", "5", "--only", "version retire")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 of 3 kills did no harm" in done.stdout
