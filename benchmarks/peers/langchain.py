"""LangChain as in its guide to EnsembleRetriever: BM25Retriever (rank_bm25) and FAISS, weights 0.5 and 0.5.

The ensemble is weighted reciprocal rank fusion with c=60. Each retriever returns as many documents as are asked for.
Where documents are to be cut, RecursiveCharacterTextSplitter with 1,000 characters and 200 of overlap, as in its
tutorials.
"""

from __future__ import annotations

from langchain_classic.retrievers import EnsembleRetriever
from langchain_community.retrievers import BM25Retriever
from langchain_community.vectorstores import FAISS
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_text_splitters import RecursiveCharacterTextSplitter


class SharedEmbeddings(Embeddings):
    def __init__(self, encode):
        self.encode = encode

    def embed_documents(self, texts):
        return self.encode(texts).tolist()

    def embed_query(self, text):
        return self.encode([text])[0].tolist()


class Peer:
    packages = ("langchain", "langchain-classic", "langchain-community", "rank-bm25", "faiss-cpu", "numpy")

    def __init__(self, encode, mode, folder):
        self.embeddings, self.folder = SharedEmbeddings(encode), folder

    def index(self, documents):
        self.parts = {d["id"]: self.cut(d) for d in documents}
        passages = [part for parts in self.parts.values() for part in parts]
        self.faiss = FAISS.from_documents(passages, self.embeddings, ids=[part.id for part in passages])
        self.retrievers(passages)

    def retrievers(self, passages):
        self.bm25 = BM25Retriever.from_documents(passages)
        self.dense = self.faiss.as_retriever()
        self.ensemble = EnsembleRetriever(retrievers=[self.bm25, self.dense], weights=[0.5, 0.5])

    def cut(self, document):
        title = document["title"] + "\n" if document["title"] else ""
        whole = Document(page_content=title + document["text"], metadata={"source": document["id"]})
        splitter = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200)
        parts = splitter.split_documents([whole]) if self.split else [whole]
        for number, part in enumerate(parts):
            part.id = f"{document['id']}#{number}"
        return parts

    def search(self, text, k):
        self.bm25.k, self.dense.search_kwargs = k, {"k": k}
        return [document.metadata["source"] for document in self.ensemble.invoke(text)[:k]]

    def change(self, document):
        self.faiss.delete([part.id for part in self.parts[document["id"]]])
        self.parts[document["id"]] = new = self.cut(document)
        self.faiss.add_documents(new, ids=[part.id for part in new])
        self.retrievers([part for parts in self.parts.values() for part in parts])

    def save(self):
        self.faiss.save_local(str(self.folder))

    def load(self):
        self.faiss = FAISS.load_local(str(self.folder), self.embeddings, allow_dangerous_deserialization=True)
        self.retrievers(list(self.faiss.docstore._dict.values()))  # BM25Retriever cannot be stored
