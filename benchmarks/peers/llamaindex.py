"""LlamaIndex as in its example "Simple Fusion Retriever / Reciprocal Rerank Fusion": VectorStoreIndex and BM25Retriever
in a QueryFusionRetriever with mode `reciprocal_rerank` and num_queries=1 (more need a language model).

Each retriever returns as many nodes as are asked for. BM25Retriever stems and drops stop words by default. Where
documents are to be cut, SentenceSplitter with its defaults (1024 tokens, 200 of overlap); else a document is a node.
"""

from __future__ import annotations

import os

from llama_index.core import Settings, StorageContext, VectorStoreIndex, load_index_from_storage
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms.mock import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import Document, TextNode
from llama_index.retrievers.bm25 import BM25Retriever
from pydantic import PrivateAttr

os.environ["TQDM_DISABLE"] = "1"


class SharedEmbedding(BaseEmbedding):
    _encode = PrivateAttr()

    def __init__(self, encode):
        super().__init__(model_name="all-MiniLM-L6-v2", embed_batch_size=256)
        self._encode = encode

    def _get_query_embedding(self, query):
        return self._encode([query])[0].tolist()

    async def _aget_query_embedding(self, query):
        return self._get_query_embedding(query)

    def _get_text_embedding(self, text):
        return self._encode([text])[0].tolist()

    def _get_text_embeddings(self, texts):
        return self._encode(texts).tolist()


class Peer:
    packages = ("llama-index-core", "llama-index-retrievers-bm25", "bm25s", "numpy")

    def __init__(self, encode, mode, folder):
        self.folder = folder
        Settings.embed_model, Settings.llm = SharedEmbedding(encode), MockLLM()

    def index(self, documents):
        self.vectors = VectorStoreIndex(self.nodes(documents))
        self.retriever = None

    def nodes(self, documents):
        texts = [(d["id"], f"{d['title']}\n{d['text']}" if d["title"] else d["text"]) for d in documents]
        if not self.split:
            return [TextNode(text=text, id_=i) for i, text in texts]
        made = [Document(text=text, doc_id=i, metadata={"source": i}) for i, text in texts]
        for document in made:
            document.excluded_embed_metadata_keys = ["source"]
        return SentenceSplitter().get_nodes_from_documents(made)

    def fusion(self, k):
        """The retriever for k; BM25Retriever builds its index here, from the nodes of the docstore."""
        bm25 = BM25Retriever.from_defaults(docstore=self.vectors.docstore, similarity_top_k=k, verbose=False)
        return QueryFusionRetriever(
            [self.vectors.as_retriever(similarity_top_k=k), bm25],
            similarity_top_k=k,
            num_queries=1,
            mode="reciprocal_rerank",
            use_async=False,
            verbose=False,
        )

    def search(self, text, k):
        if self.retriever is None:
            self.retriever = self.fusion(k)
        return [one.node.metadata.get("source", one.node.node_id) for one in self.retriever.retrieve(text)]

    def change(self, document):
        self.vectors.delete_ref_doc(document["id"], delete_from_docstore=True)
        self.vectors.insert_nodes(self.nodes([document]))
        self.retriever = None

    def save(self):
        self.vectors.storage_context.persist(persist_dir=str(self.folder))

    def load(self):
        self.vectors = load_index_from_storage(StorageContext.from_defaults(persist_dir=str(self.folder)))
        self.retriever = None
