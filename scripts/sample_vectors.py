"""Writes the vectors of the bundled sample: `python scripts/sample_vectors.py examples/vectors.npz`.

Run it again after a change of the sample, of the default layout or of a bundled encoder; a test fails until then.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np

from surefind.doors.cli.demo import ENCODERS, sample_folder
from surefind.kb import KnowledgeBase
from surefind.kb.settings.config import FILE_NAME, TEMPLATE

Rows = dict[bytes, bytes]


def rows() -> tuple[Rows, Rows]:
    """What a sync of the sample with the default settings leaves in the vector cache, and what the index of the second
    encoder of `pair` adds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / FILE_NAME).write_text(TEMPLATE, encoding="utf-8")
        with KnowledgeBase.open(folder) as base:
            base.sync(sample_folder())
            first = _kept(base)
            base.build_for(base.settings.find("pair").retrieve)
            return first, {key: row for key, row in _kept(base).items() if key not in first}


def _kept(base: KnowledgeBase) -> Rows:
    with closing(sqlite3.connect(base.data / "cache" / "embeddings.db")) as cache:
        return dict(cache.execute("SELECT key, array FROM arrays ORDER BY key"))


def main() -> None:
    arrays = {}
    for encoder, kept in zip(ENCODERS, rows(), strict=True):
        arrays[f"{encoder}_keys"] = np.frombuffer(b"".join(kept), np.uint8).reshape(len(kept), -1)
        arrays[f"{encoder}_vectors"] = np.frombuffer(b"".join(kept.values()), np.uint8).reshape(len(kept), -1)
    np.savez(sys.argv[1], **arrays)


if __name__ == "__main__":
    main()
