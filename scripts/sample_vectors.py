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

from surefind.kb import KnowledgeBase
from surefind.kb.sample import sample_folder
from surefind.settings.config import FILE_NAME, TEMPLATE


def rows() -> list[tuple[bytes, bytes]]:
    """What a sync of the sample with the default settings, and the index of the second encoder of `pair`, leave in the
    vector cache, in the order of the keys."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / FILE_NAME).write_text(TEMPLATE, encoding="utf-8")
        with KnowledgeBase.open(folder) as base:
            base.sync(sample_folder())
            base.build_for(base.settings.find("pair").retrieve)
            file = base.data / "cache" / "embeddings.db"
        with closing(sqlite3.connect(file)) as cache:
            return list(cache.execute("SELECT key, vector FROM vectors ORDER BY key"))


def main() -> None:
    keys, vectors = zip(*rows(), strict=True)
    np.savez(
        sys.argv[1],
        keys=np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), -1),
        vectors=np.frombuffer(b"".join(vectors), np.float32).reshape(len(keys), -1),
    )


if __name__ == "__main__":
    main()
