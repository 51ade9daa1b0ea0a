"""tantivy (tantivy-py): one field with the analyzer `en_stem`, a query as `parse_query` reads it (any of the words).

It has no vectors, so only BM25 is run. Characters that its query language uses are replaced by spaces.
"""

from __future__ import annotations

import re

import tantivy


class Peer:
    packages = ("tantivy",)

    def __init__(self, encode, mode, folder):
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("id", stored=True, tokenizer_name="raw")
        builder.add_text_field("text", tokenizer_name="en_stem")
        self.engine = tantivy.Index(builder.build(), path=str(folder))

    def index(self, documents):
        writer = self.engine.writer(heap_size=128_000_000, num_threads=1)
        for one in documents:
            writer.add_document(tantivy.Document(id=one["id"], text=f"{one['title']}\n{one['text']}"))
        writer.commit()
        writer.wait_merging_threads()
        self.engine.reload()
        self.searcher = self.engine.searcher()

    def search(self, text, k):
        query = self.engine.parse_query(" ".join(re.findall(r"\w+", text.lower())), ["text"])
        return [self.searcher.doc(address)["id"][0] for _, address in self.searcher.search(query, k).hits]
