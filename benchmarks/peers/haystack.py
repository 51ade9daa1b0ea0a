"""Haystack 2 as in its tutorial "Creating a Hybrid Retrieval Pipeline", without the reranker (a model from a hub).

InMemoryDocumentStore, InMemoryBM25Retriever and InMemoryEmbeddingRetriever, DocumentJoiner with reciprocal rank
fusion. Each retriever returns as many documents as are asked for (the default is 10). Where documents are to be cut,
DocumentSplitter as in the tutorial: 250 words, 32 of overlap. The text embedder is a component of our own.
"""

from __future__ import annotations

import logging

from haystack import Document, Pipeline, component
from haystack.components.joiners import DocumentJoiner
from haystack.components.preprocessors import DocumentSplitter
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever, InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.document_stores.types import DuplicatePolicy

logging.getLogger("haystack").setLevel(logging.ERROR)


@component
class TextEmbedder:
    def __init__(self, encode):
        self.encode = encode

    @component.output_types(embedding=list[float])
    def run(self, text: str):
        return {"embedding": self.encode([text])[0].tolist()}


class Peer:
    packages = ("haystack-ai", "numpy")

    def __init__(self, encode, mode, folder):
        self.encode, self.folder = encode, folder

    def index(self, documents):
        self.store = InMemoryDocumentStore(embedding_similarity_function="cosine")
        self.write(documents)
        self.pipeline = Pipeline()
        self.pipeline.add_component("text_embedder", TextEmbedder(self.encode))
        self.pipeline.add_component("embedding_retriever", InMemoryEmbeddingRetriever(self.store))
        self.pipeline.add_component("bm25_retriever", InMemoryBM25Retriever(self.store))
        self.pipeline.add_component("document_joiner", DocumentJoiner(join_mode="reciprocal_rank_fusion"))
        self.pipeline.connect("text_embedder", "embedding_retriever")
        self.pipeline.connect("bm25_retriever", "document_joiner")
        self.pipeline.connect("embedding_retriever", "document_joiner")

    def write(self, documents):
        title = "{title}\n{text}".format_map
        made = [Document(content=title(d) if d["title"] else d["text"], meta={"source": d["id"]}) for d in documents]
        if self.split:
            splitter = DocumentSplitter(split_by="word", split_length=250, split_overlap=32)
            made = splitter.run(documents=made)["documents"]
        for document, vector in zip(made, self.encode([d.content for d in made]).tolist(), strict=True):
            document.embedding = vector
        self.store.write_documents(made, policy=DuplicatePolicy.OVERWRITE)

    def search(self, text, k):
        found = self.pipeline.run(
            {
                "text_embedder": {"text": text},
                "bm25_retriever": {"query": text, "top_k": k},
                "embedding_retriever": {"top_k": k},
                "document_joiner": {"top_k": k},
            }
        )
        return [document.meta["source"] for document in found["document_joiner"]["documents"]]

    def change(self, document):
        old = {"field": "meta.source", "operator": "==", "value": document["id"]}
        self.store.delete_documents([one.id for one in self.store.filter_documents(old)])
        self.write([document])

    def save(self):
        self.store.save_to_disk(str(self.folder / "store.json"))

    def load(self):
        store = InMemoryDocumentStore.load_from_disk(str(self.folder / "store.json"))
        documents = store.filter_documents()
        self.index([])
        self.store.write_documents(documents)
