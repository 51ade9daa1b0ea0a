"""Finds lexical negatives for every training query: the best passages of its source by our own BM25.

    python training/mine_lexical.py WORK

Needs surefind, no accelerator. Reads the files of pairs in WORK; WORK/lexical.npz has one row of passage numbers
(within the source) per query.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from pairs import pairs_of
from surefind.base import spec
from surefind.base.types import EVERY, Chunk, Query
from surefind.engine.services import LocalServices

DEPTH = 16
NONE = 65_535


def main(work: Path) -> None:
    pairs = pairs_of(work)
    retriever = spec.make("retrieve", "bm25")
    table = np.full((len(pairs.queries), DEPTH), NONE, dtype=np.uint16)
    owners = np.array(pairs.query_source)
    for number, name in enumerate(pairs.sources):
        texts = pairs.passages[pairs.first[number] : pairs.first[number + 1]]
        index = retriever.build([Chunk(str(i), 0, len(t), t) for i, t in enumerate(texts)], LocalServices())
        mine = np.flatnonzero(owners == number)
        found = index.search(retriever, [Query(pairs.queries[q]) for q in mine], DEPTH, EVERY).ids
        table[mine] = np.where(found < 0, NONE, found)
        print(f"{name}: {len(texts):,} passages, {len(mine):,} queries", flush=True)
    np.savez_compressed(work / "lexical.npz", lexical=table)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
