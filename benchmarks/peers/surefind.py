"""Surefind as its README uses it: sync a folder, search with the default pipeline and layout.

`pair` is the default: `bm25 + dense + dense(model=arctic) >> weighted(weights=[0.4, 0.3, 0.3], missing=score)`, without
a surefind.toml. `hybrid` has one encoder, as the peers do: `bm25 + dense >> convex(alpha=0.5, missing=score)`. The
layout is `hierarchical(parent=1500, child=250)`. Only the encoders are replaced: minilm by the one that all peers get,
arctic by the same kind of function, so that their time is counted apart. Timed searches run with `confidence="off"`,
because no peer says how sure it is; the first answer has Surefind's default.
"""

from __future__ import annotations

import json

from surefind import Access, KnowledgeBase
from surefind.engine.embed.arctic import Arctic
from surefind.engine.embed.minilm import MiniLM

ROWS = 10_000
SETTINGS = {
    "pair": "",
    "hybrid": '[search]\npipeline = "hybrid"\n',
    "bm25": '[search]\npipeline = "words"\n[pipelines.words]\nretrieve = ["bm25"]\n',
}


class Peer:
    packages = ("surefind", "surefind-models", "numpy", "numba", "onnxruntime")

    def __init__(self, encode, mode, folder):
        MiniLM.embed = MiniLM.embed_queries = lambda self, texts, progress=None: encode(list(texts))
        if mode == "pair":
            second = encode.also("arctic")
            Arctic.embed = lambda self, texts, progress=None: second(list(texts))
            Arctic.embed_queries = lambda self, texts: second.of_questions(list(texts))
        self.mode, self.docs = mode, folder / "docs"
        self.docs.mkdir(parents=True, exist_ok=True)
        if SETTINGS[mode]:
            (folder / "surefind.toml").write_text(SETTINGS[mode])
        self.kb = KnowledgeBase.open(folder)

    def index(self, documents):
        if self.split:  # files of a folder
            for document in documents:
                self.write(document)
        else:  # files of up to 10,000 rows in BEIR's form; a file that takes long to read is refused
            rows = [json.dumps({"_id": d["id"], "title": d["title"], "text": d["text"]}) + "\n" for d in documents]
            for at in range(0, len(rows), ROWS):
                (self.docs / f"corpus-{at}.jsonl").write_text("".join(rows[at : at + ROWS]))
        self.documents = documents
        report = self.kb.sync(self.docs)
        if report.problems:
            raise RuntimeError(str(report.problems[0]))

    def write(self, document):
        path = self.docs / document["id"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document["text"], encoding="utf-8")

    def search(self, text, k):
        confidence = self.job.get("confidence", "off")
        result = self.kb.search(text, Access.owner(), k=k, confidence=confidence)
        if result.waiting_for:
            raise RuntimeError(f"not indexed: {result.waiting_for}")
        return [hit.document if self.split else hit.document.rpartition("#")[2] for hit in result.hits]

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
