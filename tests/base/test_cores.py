"""How many cores this process may use: affinity and container limits count, not what the machine has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cases import each
from surefind.base import running
from surefind.base.running import quota, usable_cores


def groups(tmp_path: Path, membership: str, **files: str) -> tuple[Path, Path]:
    """A folder of control groups and the file that says in which of them this process is."""
    root = tmp_path / "cgroup"
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    mine = tmp_path / "self"
    mine.write_text(membership)
    return root, mine


@each(
    ("text", "expected"),
    [
        ("200000 100000\n", 2),
        ("150000 100000\n", 2),  # one and a half cores keep two threads busy
        ("50000 100000\n", 1),
        ("max 100000\n", None),
        ("", None),
        ("nonsense\n", None),
        ("100000 0\n", None),
    ],
)
def test_quota_of_version_2(tmp_path: Path, text: str, expected: int | None) -> None:
    assert quota(*groups(tmp_path, "0::/\n", **{"cpu.max": text})) == expected


@each(("value", "expected"), [("400000", 4), ("250000", 3), ("-1", None), ("0", None)])
def test_quota_of_version_1(tmp_path: Path, value: str, expected: int | None) -> None:
    files = {"cpu/cpu.cfs_quota_us": f"{value}\n", "cpu/cpu.cfs_period_us": "100000\n"}
    assert quota(*groups(tmp_path, "4:memory:/x\n2:cpu:/\n", **files)) == expected


def test_quota_of_version_1_below_the_root(tmp_path: Path) -> None:
    files = {
        "cpu,cpuacct/docker/a1/cpu.cfs_quota_us": "300000\n",
        "cpu,cpuacct/docker/a1/cpu.cfs_period_us": "100000\n",
    }
    assert quota(*groups(tmp_path, "2:cpu,cpuacct:/docker/a1\n1:name=systemd:/\n", **files)) == 3


def test_a_container_sees_its_own_group_as_the_root(tmp_path: Path) -> None:
    """Docker names the path on the host, and mounts only what is below it."""
    files = {"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}
    assert quota(*groups(tmp_path, "2:cpu:/docker/a1\n", **files)) == 2


def test_the_narrowest_of_nested_groups_counts(tmp_path: Path) -> None:
    files = {
        "system.slice/cpu.max": "300000 100000\n",
        "system.slice/a.service/cpu.max": "max 100000\n",
        "other.slice/cpu.max": "100000 100000\n",
    }
    assert quota(*groups(tmp_path, "0::/system.slice/a.service\n", **files)) == 3


def test_without_control_groups_there_is_no_quota(tmp_path: Path) -> None:
    assert quota(tmp_path / "nothing", tmp_path / "neither") is None


@each(("limit", "expected"), [(1, 1), (None, 3), (99, 3)])
def test_the_lower_of_affinity_and_quota_counts(
    monkeypatch: pytest.MonkeyPatch, limit: int | None, expected: int
) -> None:
    monkeypatch.setattr(running, "quota", lambda: limit)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 4, 7}, raising=False)
    usable_cores.cache_clear()
    try:
        assert usable_cores() == expected
    finally:
        usable_cores.cache_clear()


def test_without_affinity_the_machine_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "quota", lambda: None)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    usable_cores.cache_clear()
    try:
        for count, expected in ((6, 6), (None, 1)):
            monkeypatch.setattr(os, "cpu_count", lambda count=count: count)
            usable_cores.cache_clear()
            assert usable_cores() == expected
    finally:
        usable_cores.cache_clear()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_models_use_the_cores_that_are_theirs_when_a_session_is_made() -> None:
    """A server imports first, and binds its workers then."""
    code = """
import os

import surefind_models
from surefind.base import spec
from surefind.base.running import usable_cores
from surefind.engine.inference import encoder
from surefind.engine.inference import cross_encoder as reranker
from surefind.base.types import Chunk

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
threads, workers = [], []
pool, session = encoder.Workers, encoder.open_session
encoder.open_session = lambda model, count: threads.append(count) or session(model, count)
encoder.Workers = reranker.Workers = lambda count: workers.append(count) or pool(count)
spec.make("embed", "minilm").embed(["a"])
spec.make("embed", "minilm").embed(["a", "b"])
reranker.OnnxCrossEncoder(surefind_models.path("reranker")).score("a", [Chunk("a", 0, 1, "a")])
print(max(threads), workers, usable_cores())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1 [1, 1] 1"
