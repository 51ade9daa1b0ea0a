"""DuckDB with its extensions fts and vss, which PyPI has as packages: `match_bm25` with the Porter stemmer and English
stop words (its defaults), and an HNSW index with the metric cosine (its defaults), 100 candidates of each.

DuckDB documents no fusion, so reciprocal rank fusion (k=60) is done here. The index is built with a thread for each
core that the process may use; a question has one thread. The database is in memory.
"""

from __future__ import annotations

import os
from importlib.metadata import files

import duckdb
import pyarrow


class Peer:
    packages = ("duckdb", "duckdb-extension-fts", "duckdb-extension-vss")

    def __init__(self, encode, mode, folder):
        self.encode, self.mode = encode, mode
        self.db = duckdb.connect(config={"threads": len(os.sched_getaffinity(0))})
        for name in ("fts", "vss"):
            path = next(one for one in files(f"duckdb-extension-{name}") if one.name == f"{name}.duckdb_extension")
            self.db.execute(f"LOAD '{path.locate()}'")

    def index(self, documents):
        texts = [f"{one['title']}\n{one['text']}" if one["title"] else one["text"] for one in documents]
        columns = {"id": [one["id"] for one in documents], "text": texts}
        if self.mode == "hybrid":
            flat = pyarrow.array(self.encode(texts).ravel())
            columns["vector"] = pyarrow.FixedSizeListArray.from_arrays(flat, 384)
        rows = pyarrow.table(columns)  # noqa: F841 (DuckDB reads it by its name)
        self.db.execute("CREATE TABLE passages AS SELECT * FROM rows")
        self.db.execute("PRAGMA create_fts_index('passages', 'id', 'text')")
        if self.mode == "hybrid":
            self.db.execute("CREATE INDEX near ON passages USING HNSW (vector) WITH (metric = 'cosine')")
        self.db.execute("SET threads = 1")

    def search(self, text, k):
        depth = k if self.mode == "bm25" else 100
        scored = "SELECT id, fts_main_passages.match_bm25(id, ?) AS score FROM passages"
        words = f"SELECT id FROM ({scored}) WHERE score IS NOT NULL ORDER BY score DESC LIMIT {depth}"
        found = [self.db.execute(words, [text]).fetchall()]
        if self.mode == "hybrid":
            near = "SELECT id FROM passages ORDER BY array_cosine_distance(vector, ?::FLOAT[384]) LIMIT 100"
            found.append(self.db.execute(near, [self.encode([text])[0].tolist()]).fetchall())
        scores = {}
        for ranking in found:
            for rank, (name,) in enumerate(ranking, 1):
                scores[name] = scores.get(name, 0.0) + 1 / (60 + rank)
        return sorted(scores, key=scores.get, reverse=True)[:k]
