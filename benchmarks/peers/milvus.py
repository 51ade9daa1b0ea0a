"""Milvus Lite as in the Milvus guides to full-text and hybrid search: a BM25 function over the text, a dense field
with an exact index (FLAT), and `hybrid_search` with RRFRanker (k=60), 100 candidates of each.

Milvus Lite refuses the analyzer `english` ("unknown tokenizer type"), so the standard one is used: no stemming.
"""

from __future__ import annotations

import os

from pymilvus import AnnSearchRequest, DataType, Function, FunctionType, MilvusClient, RRFRanker

NAME = "passages"


class Peer:
    packages = ("pymilvus", "milvus-lite")

    def __init__(self, encode, mode, folder):
        self.encode, self.mode = encode, mode
        self.client = MilvusClient(os.fspath(folder / "milvus.db"))

    def index(self, documents):
        texts = [f"{one['title']}\n{one['text']}" if one["title"] else one["text"] for one in documents]
        schema = self.client.create_schema(auto_id=False)
        schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=100)
        schema.add_field("text", DataType.VARCHAR, max_length=65535, enable_analyzer=True)
        schema.add_field("words", DataType.SPARSE_FLOAT_VECTOR)
        names = {"input_field_names": ["text"], "output_field_names": ["words"]}
        schema.add_function(Function(name="bm25", function_type=FunctionType.BM25, **names))
        indexes = self.client.prepare_index_params()
        indexes.add_index("words", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25")
        if self.mode == "hybrid":
            schema.add_field("vector", DataType.FLOAT_VECTOR, dim=384)
            indexes.add_index("vector", index_type="FLAT", metric_type="IP")
        self.client.create_collection(NAME, schema=schema, index_params=indexes)
        for at in range(0, len(texts), 1000):
            part = texts[at : at + 1000]
            rows = [{"id": one["id"], "text": text} for one, text in zip(documents[at:], part, strict=False)]
            if self.mode == "hybrid":
                for row, vector in zip(rows, self.encode(part).tolist(), strict=True):
                    row["vector"] = vector
            self.client.insert(NAME, rows)
        self.client.load_collection(NAME)

    def search(self, text, k):
        if self.mode == "bm25":
            found = self.client.search(NAME, [text], anns_field="words", limit=k, output_fields=["id"])
        else:
            words = AnnSearchRequest([text], "words", {"metric_type": "BM25"}, limit=100)
            dense = AnnSearchRequest(self.encode([text]).tolist(), "vector", {"metric_type": "IP"}, limit=100)
            found = self.client.hybrid_search(NAME, [words, dense], RRFRanker(60), limit=k, output_fields=["id"])
        return [hit["id"] for hit in found[0]]
