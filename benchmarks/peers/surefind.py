"""Surefind as its README uses it: sync a folder, search with the default pipeline and layout.

The pipeline is `bm25 + dense >> convex(alpha=0.5, missing=score)`, the layout `hierarchical(parent=1500, child=250)`.
Only the encoder is replaced, by the one that all peers get, so that its time is counted apart. Timed searches run with
`confidence="off"`, because no peer says how sure it is; the first answer has Surefind's default.
"""

from __future__ import annotations

import json

from surefind import Access, KnowledgeBase
from surefind.embed.minilm import MiniLM


class Peer:
    packages = ("surefind", "surefind-models", "numpy", "numba", "onnxruntime")

    def __init__(self, encode, mode, folder):
        MiniLM.embed = lambda self, texts, progress=None: encode(list(texts))
        self.mode, self.docs = mode, folder / "docs"
        self.docs.mkdir(parents=True, exist_ok=True)
        if mode == "bm25":
            settings = '[search]\npipeline = "words"\n[pipelines.words]\nretrieve = ["bm25"]\n'
            (folder / "surefind.toml").write_text(settings)
        self.kb = KnowledgeBase.open(folder)

    def index(self, documents):
        if self.split:  # files of a folder
            for document in documents:
                self.write(document)
        else:  # one file in BEIR's form
            rows = ({"_id": d["id"], "title": d["title"], "text": d["text"]} for d in documents)
            (self.docs / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.documents = documents
        self.kb.sync(self.docs)

    def write(self, document):
        path = self.docs / document["id"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document["text"], encoding="utf-8")

    def search(self, text, k):
        confidence = self.job.get("confidence", "off")
        return [hit.document for hit in self.kb.search(text, Access.owner(), k=k, confidence=confidence).hits]

    def change(self, document):
        if self.split:
            self.write(document)
            self.kb.sync(self.docs)
        else:
            self.index([document if d["id"] == document["id"] else d for d in self.documents])

    def save(self):
        pass  # a sync has stored it

    def load(self):
        pass  # a search sees the newest generation
