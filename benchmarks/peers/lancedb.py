"""LanceDB as in its guide to hybrid search: a full-text index, vectors, and `query_type="hybrid"` with RRFReranker.

The full-text index is LanceDB's own (`use_tantivy=False`) with its defaults (English stemmer, stop words removed). The
vectors are searched exactly below 100,000 passages; from there on with the index that its guide recommends (IVF-PQ,
its defaults).
"""

from __future__ import annotations

import lancedb
import pyarrow
from lancedb.rerankers import RRFReranker


class Peer:
    packages = ("lancedb", "pylance", "pyarrow")

    def __init__(self, encode, mode, folder):
        self.encode, self.mode = encode, mode
        self.db = lancedb.connect(str(folder))
        self.reranker = RRFReranker()

    def index(self, documents):
        texts = [f"{one['title']}\n{one['text']}" if one["title"] else one["text"] for one in documents]
        columns = {"id": [one["id"] for one in documents], "text": texts}
        if self.mode == "hybrid":
            flat = pyarrow.array(self.encode(texts).ravel())
            columns["vector"] = pyarrow.FixedSizeListArray.from_arrays(flat, 384)
        self.table = self.db.create_table("passages", pyarrow.table(columns))
        self.table.create_fts_index("text", use_tantivy=False)
        if self.mode == "hybrid" and len(texts) >= 100_000:
            self.table.create_index(metric="cosine", vector_column_name="vector")

    def search(self, text, k):
        if self.mode == "bm25":
            query = self.table.search(text, query_type="fts")
        else:
            query = self.table.search(query_type="hybrid").vector(self.encode([text])[0]).text(text)
            query = query.rerank(self.reranker)
        return query.limit(k).select(["id"]).to_arrow()["id"].to_pylist()
