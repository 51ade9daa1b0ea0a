"""bm25s and faiss, joined by hand with reciprocal rank fusion: the shortest hybrid search that one writes oneself.

bm25s as in its README (English stop words, Snowball stemmer; method lucene, k1=1.5, b=0.75 are its defaults), an exact
faiss index of inner products, 100 candidates of each, RRF with k=60.
"""

from __future__ import annotations

import json

import bm25s
import faiss
import Stemmer


class Peer:
    packages = ("bm25s", "faiss-cpu", "PyStemmer", "numpy")

    def __init__(self, encode, mode, folder):
        self.encode, self.mode, self.folder = encode, mode, folder
        self.stemmer = Stemmer.Stemmer("english")

    def index(self, documents):
        self.documents = documents
        passages = [(d["id"], part) for d in documents for part in self.parts(d)]
        self.ids, self.texts = [i for i, _ in passages], [text for _, text in passages]
        self.bm25 = bm25s.BM25()
        self.bm25.index(self.tokens(self.texts), show_progress=False)
        if self.mode == "hybrid":
            self.vectors = faiss.IndexFlatIP(384)
            self.vectors.add(self.encode(self.texts))

    def parts(self, document):
        """Paragraphs are joined up to 1,000 characters, where documents are to be cut."""
        title = document["title"] + "\n" if document["title"] else ""
        if not self.split:
            return [title + document["text"]]
        parts = [""]
        for paragraph in document["text"].split("\n\n"):
            if parts[-1] and len(parts[-1]) + len(paragraph) > 1000:
                parts.append("")
            parts[-1] += paragraph + "\n\n"
        return [title + part for part in parts]

    def tokens(self, texts):
        return bm25s.tokenize(texts, stopwords="en", stemmer=self.stemmer, show_progress=False)

    def search(self, text, k):
        depth = min(100, len(self.ids))
        found = [self.bm25.retrieve(self.tokens([text]), k=depth, show_progress=False)[0][0].tolist()]
        if self.mode == "hybrid":
            found.append(self.vectors.search(self.encode([text]), depth)[1][0].tolist())
        scores = {}
        for ranking in found:
            for rank, place in enumerate(ranking, 1):
                scores[place] = scores.get(place, 0.0) + 1 / (60 + rank)
        return [self.ids[place] for place in sorted(scores, key=scores.get, reverse=True)[:k]]

    def change(self, document):
        self.index([document if d["id"] == document["id"] else d for d in self.documents])  # neither can replace

    def save(self):
        self.bm25.save(str(self.folder / "bm25"))
        faiss.write_index(self.vectors, str(self.folder / "vectors.faiss"))
        (self.folder / "ids.json").write_text(json.dumps(self.ids))

    def load(self):
        self.bm25 = bm25s.BM25.load(str(self.folder / "bm25"))
        self.vectors = faiss.read_index(str(self.folder / "vectors.faiss"))
        self.ids = json.loads((self.folder / "ids.json").read_text())
