"""A knowledge base on a disk that is mounted read-only can be read by every command that only reads."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import Home
from surefind import Access
from surefind.kb.queries import QueryLog
from surefind.lab.exam.model import Exam, ExamQuery, Judgment
from surefind.lab.exam.store import ExamStore

MOUNTED = """
import json, subprocess, sys
sys.path.insert(0, sys.argv[1])
from exam_helpers import surefind
folder = sys.argv[2]
for options in (["--bind", folder, folder], ["-o", "remount,ro,bind", folder]):
    if subprocess.run(["mount", *options], capture_output=True).returncode:
        sys.exit(77)
runs = [surefind(*words, kb=folder) for words in json.loads(sys.argv[3])]
print(json.dumps([[ran.code, ran.out, ran.err] for ran in runs]))
"""
"""Runs commands in a mount namespace of its own, in which a folder is read-only. The mount ends with the process."""
READS = {
    "search alpha": "a.md",
    "status": "Documents       2",
    "history a.md": "version 1",
    "diff": "b.md",
    "access": "everybody",
    "exam show mine": "alpha?",
    "exam queries": "alpha",
    "doctor": "0 failed",
}
"""Commands, and something that each shows."""


def on_a_read_only_disk(folder: Path, *commands: str) -> list[tuple[int, str, str]]:
    """Returns the exit code, the output and the errors of each command."""
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("mount"):
        pytest.skip("only root can mount a folder read-only")
    words = json.dumps([command.split() for command in commands])
    command = ["unshare", "-m", sys.executable, "-c", MOUNTED, str(Path(__file__).parents[1]), str(folder), words]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode == 77 or ran.stderr.startswith("unshare"):
        pytest.skip("this system does not allow mounts")
    assert ran.returncode == 0, ran.stderr
    return [(code, out, err) for code, out, err in json.loads(ran.stdout.splitlines()[-1])]


def test_commands_that_read_work_and_sync_says_why_not(home: Home) -> None:
    home.write("docs/a.md", "# A\n\nalpha common")
    home.sync("docs")
    home.write("docs/b.md", "# B\n\nbeta common")
    home.sync("docs")
    data = home.folder / ".surefind"
    ExamStore(data / "exams").save(Exam("mine", (ExamQuery("1", "alpha?", (Judgment("a.md"),)),)))
    with home.open() as kb:
        QueryLog(data, 90).keep(kb.search("alpha", Access.public()), Access.public())
    *read, synced = on_a_read_only_disk(home.folder, *READS, "sync")
    for (command, shows), (code, out, err) in zip(READS.items(), read, strict=True):
        assert code == 0, f"{command}: {out}{err}"
        assert shows in out
    code, out, err = synced
    assert code == 3 and "Read-only file system" in err
    assert "move" not in err
