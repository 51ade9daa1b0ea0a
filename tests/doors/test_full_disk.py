"""A server whose disk is full or becomes read-only answers with one sentence, loses nothing, and goes on afterwards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cases import mostly_long

PROGRAM = Path(__file__).with_name("full_disk.py")
NO_MOUNT = 77
SAID = {
    "full": "The disk of the server is full. Nothing was saved, and nothing is lost. Tell whoever runs it.",
    "read-only": "The server cannot write to its disk. Nothing was saved, and nothing is lost. Tell whoever runs it.",
}


@pytest.mark.parametrize("kind", mostly_long(SAID, 1))
def test_server_says_what_is_wrong_with_its_disk(tmp_path: Path, kind: str) -> None:
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("mount"):
        pytest.skip("only root can mount a disk")
    command = ["unshare", "-m", sys.executable, str(PROGRAM), str(tmp_path / "disk"), kind]
    (tmp_path / "disk").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(PROGRAM.parents[1])}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode == NO_MOUNT or ran.stderr.startswith("unshare"):
        pytest.skip("this system does not allow mounts")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout.splitlines()[-1])
    search, read, *writes = told["during"]
    assert (search[1], read[1]) == (200, 200)
    # What a write that failed leaves of SQLite's log has room for a short one after it.
    short = [path for path, status, _ in writes if kind == "full" and status == 201]
    assert short in ([], ["/v1/exams/staff/questions"])
    assert all((status, said) == (507, SAID[kind]) for path, status, said in writes if path not in short)
    assert told["bench"] and "Traceback" not in told["bench"]
    if kind == "full":
        assert [status for _, status, _ in told["after"]] == [200, 200, 201, 200, 201, 201, 201, 200, 303]
        assert told["doctor"] == 0
