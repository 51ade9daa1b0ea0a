"""What the install of a peer takes, as its documentation has it for offline hybrid search with this encoder.

The packages come from pip's plan (`pip install --dry-run --report`), their sizes from the files of the same
distributions in any environment of WORK or in this one, so that torch need not be installed five times.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTED = {
    "surefind": [str(ROOT / "models"), f"{ROOT}[formats,serve]"],
    "hand": ["bm25s", "PyStemmer", "faiss-cpu", "sentence-transformers"],
    "txtai": ["txtai"],
    "haystack": ["haystack-ai", "sentence-transformers"],
    "llamaindex": [
        *("llama-index-core", "llama-index-embeddings-huggingface"),
        *("bm25s", "PyStemmer"),  # what llama-index-retrievers-bm25 needs; see `peers.INSTALL`
    ],
    "langchain": [
        *("langchain", "langchain-classic", "langchain-community", "rank_bm25"),
        *("faiss-cpu", "langchain-huggingface", "sentence-transformers"),
    ],
}


def documented(peer: str, work: Path, plan: bool = False) -> dict[str, Any]:
    """The packages and megabytes of the documented install, if it was planned before or is to be planned now;
    `unknown` packages are in no environment here."""
    note = work / "venv" / f"{peer}.documented.json"
    if peer not in DOCUMENTED or not (note.exists() or plan):
        return {}
    if not note.exists():
        call = [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--ignore-installed", "--report", "-"]
        done = subprocess.run([*call, *DOCUMENTED[peer]], capture_output=True, text=True)
        if done.returncode:
            return {"error": done.stderr.strip().splitlines()[-1]}
        planned = json.loads(done.stdout)["install"]
        note.write_text(json.dumps({_plain(row["metadata"]["name"]): row["metadata"]["version"] for row in planned}))
    packages = json.loads(note.read_text())
    sizes = _sizes(work)
    known = [sizes[name] for name in packages if name in sizes]
    unknown = sorted(name for name in packages if name not in sizes)
    return {"packages": len(packages), "mb": round(sum(known) / 2**20), "unknown": unknown}


def _sizes(work: Path) -> dict[str, int]:
    """The bytes of the files of every distribution in the environments."""
    folders = [*map(str, (work / "venv").glob("*/lib/python3*/site-packages")), *sys.path]
    found: dict[str, int] = {}
    for one in distributions(path=folders):
        files = [Path(str(path.locate())) for path in one.files or []]
        size = sum(path.stat().st_size for path in files if path.is_file())
        name = _plain(one.metadata["Name"] or "")
        found[name] = max(found.get(name, 0), size)
    return found


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
