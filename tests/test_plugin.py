"""examples/plugin: a package of its own that adds a stage, installed and used as docs/plugin.md tells."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLUGIN = ROOT / "examples" / "plugin"
FILES = ("pyproject.toml", "surefind_isr.py", "test_isr.py")
PIPELINE = "bm25 + tfidf >> isr(power=2)"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pip put it. Building takes hatchling, which is fetched where it is not installed."""
    if importlib.util.find_spec("pip") is None:
        pytest.skip("there is no pip here")
    target = tmp_path_factory.mktemp("plugin")
    offline = ["--no-build-isolation"] if importlib.util.find_spec("hatchling") else []
    words = ["--quiet", "--disable-pip-version-check", "--no-deps", *offline, "--target", str(target)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    made = subprocess.run(
        [sys.executable, "-m", "pip", "install", *words, str(PLUGIN)], capture_output=True, text=True, env=environment
    )
    assert made.returncode == 0, made.stderr
    return target


def run(installed: Path, folder: Path, *words: str) -> str:
    paths = os.pathsep.join((str(installed), str(ROOT / "src")))
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_stage_is_used_by_its_name(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "ctr.md").write_text("# Cash reports\n\nA CTR is due within 15 calendar days.\n")
    (tmp_path / "docs" / "wire.md").write_text("# Wires\n\nThe cutoff for wires is 16:00.\n")
    (tmp_path / "surefind.toml").write_text('[search]\npipeline = "words"\n[pipelines.words]\nretrieve = ["bm25"]\n')
    run(installed, tmp_path, "surefind", "sync", "docs")
    words = ("search", "when is the CTR due", "-p", PIPELINE, "--explain", "--build")
    shown = run(installed, tmp_path, "surefind", *words)
    assert "ctr.md" in shown
    assert "isr #1 (4.000)" in shown
    table = run(installed, tmp_path, "surefind", "bench", "-p", "words", "-p", PIPELINE)
    assert "isr(power=2.0)" in table


def test_the_stage_keeps_its_contract(installed: Path, tmp_path: Path) -> None:
    """The tests lie alone, so that what they import is what was installed."""
    shutil.copy(PLUGIN / "test_isr.py", tmp_path)
    assert "4 passed" in run(installed, tmp_path, "pytest", "test_isr.py")


def test_the_page_shows_the_files_as_they_are() -> None:
    page = (ROOT / "docs" / "plugin.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w+\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert [name for name in FILES if (PLUGIN / name).read_text(encoding="utf-8") not in blocks] == []
