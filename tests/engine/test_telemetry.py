"""Nothing leaves the machine: onnxruntime sends events to its maker unless it is told not to before it is loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EMBED = "from surefind.engine.embed.minilm import MiniLM; MiniLM().embed(['a text'])"
RERANK = """
from surefind.engine.inference.cross_encoder import OnnxCrossEncoder
from surefind.engine.rerank.cross_encoder import bundled
from surefind.base.types import Chunk
OnnxCrossEncoder(bundled()).score("a question", [Chunk("a.md", 0, 6, "a text")])
"""


@pytest.mark.parametrize("program", [EMBED, RERANK], ids=["encoder", "reranker"])
def test_no_identifier_and_no_queue_of_events_is_written(program: str, tmp_path: Path) -> None:
    """With its telemetry on, onnxruntime writes both below the user's cache folder when it is loaded."""
    unset = ("ORT_DISABLE_TELEMETRY", "CI", "XDG_CACHE_HOME")
    environment = {key: value for key, value in os.environ.items() if key not in unset}
    environment |= {
        "HOME": str(tmp_path),
        "NUMBA_CACHE_DIR": os.environ.get("NUMBA_CACHE_DIR", str(tmp_path / "numba")),
    }
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=600)
    assert not [path for path in tmp_path.rglob("*") if "onnxruntime" in path.name.lower()]


def test_a_user_who_wants_it_can_say_so() -> None:
    asked = "import os, surefind; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    environment = {**os.environ, "ORT_DISABLE_TELEMETRY": "0"}
    shown = subprocess.run([sys.executable, "-c", asked], env=environment, check=True, capture_output=True, text=True)
    assert shown.stdout == "0\n"
