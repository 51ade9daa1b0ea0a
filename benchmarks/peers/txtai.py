"""txtai as in its documentation of hybrid search: `Embeddings(hybrid=True, content=True)`.

Its own BM25 (written for SQLite-backed terms) and faiss, joined with equal weights; scores of BM25 are normalized by
txtai. The encoder is its `external` method with a function (`transform`). Where documents are to be cut, `Textractor`
needs Java, so paragraphs are indexed, which is what its example of `Textractor(paragraphs=True)` does.
"""

from __future__ import annotations

from txtai import Embeddings


class Peer:
    packages = ("txtai", "faiss-cpu", "torch", "transformers", "numpy")

    def __init__(self, encode, mode, folder):
        self.folder = folder
        self.encode = lambda texts: encode(list(texts))  # txtai takes functions alone

    def index(self, documents):
        self.embeddings = Embeddings(method="external", transform=self.encode, hybrid=True, content=True)
        self.embeddings.index(self.rows(documents))

    def rows(self, documents):
        for document in documents:
            title = document["title"] + "\n" if document["title"] else ""
            parts = document["text"].split("\n\n") if self.split else [document["text"]]
            for number, part in enumerate(part for part in parts if part.strip()):
                yield f"{document['id']}#{number}", title + part, None

    def search(self, text, k):
        return [row["id"].rpartition("#")[0] for row in self.embeddings.search(text, k)]

    def change(self, document):
        name = document["id"].replace("'", "''")
        old = self.embeddings.search(f"select id from txtai where id like '{name}#%'", 10_000)
        self.embeddings.delete([row["id"] for row in old])
        self.embeddings.upsert(self.rows([document]))

    def save(self):
        self.embeddings.save(str(self.folder / "index"))

    def load(self):
        self.embeddings = Embeddings()
        self.embeddings.load(str(self.folder / "index"), config={"transform": self.encode})
