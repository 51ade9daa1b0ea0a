"""LightRAG as in its README (`insert`, then `aquery_data`), as far as it goes without a language model.

Its graph is extracted by a language model, so there is no graph and none of its hybrid modes here: mode `naive`
searches the vectors of its chunks (1,200 tokens, 100 of overlap, its defaults). Its default tokenizer is downloaded,
so words stand for tokens. A function that refuses every call takes the place of the language model.
"""

from __future__ import annotations

import asyncio
import logging
import re

from lightrag import LightRAG, QueryParam
from lightrag.utils import EmbeddingFunc, Tokenizer

logging.disable(logging.CRITICAL)


class Words:
    """Words and the spaces around them as tokens."""

    def __init__(self):
        self.known, self.listed = {}, []

    def encode(self, content):
        for word in re.findall(r"\s*\S+\s*", content):
            if word not in self.known:
                self.known[word] = len(self.listed)
                self.listed.append(word)
        return [self.known[word] for word in re.findall(r"\s*\S+\s*", content)]

    def decode(self, tokens):
        return "".join(self.listed[token] for token in tokens)


async def no_model(*args, **options):
    raise RuntimeError("There is no language model and no key.")


class Peer:
    packages = ("lightrag-hku", "numpy")

    def __init__(self, encode, mode, folder):
        async def embed(texts):
            return encode(list(texts))

        self.loop = asyncio.new_event_loop()
        embedding = EmbeddingFunc(embedding_dim=384, max_token_size=256, func=embed)
        words = Tokenizer("words", Words())
        self.rag = LightRAG(working_dir=str(folder), embedding_func=embedding, llm_model_func=no_model, tokenizer=words)
        self.loop.run_until_complete(self.rag.initialize_storages())

    def index(self, documents):
        ids = [one["id"] for one in documents]
        texts = [f"{one['title']}\n{one['text']}" if one["title"] else one["text"] for one in documents]
        self.loop.run_until_complete(self.rag.ainsert(texts, ids=ids, file_paths=ids))
        states = self.loop.run_until_complete(self.rag.aget_docs_by_ids(ids))
        failed = [state for state in states.values() if state.get("error_msg")]
        if failed:
            raise RuntimeError(f"{len(failed)} of {len(ids)} documents failed: {failed[0]['error_msg']}")

    def search(self, text, k):
        asked = QueryParam(mode="naive", chunk_top_k=k, top_k=k, enable_rerank=False)
        found = self.loop.run_until_complete(self.rag.aquery_data(text, asked))
        return [chunk["file_path"] for chunk in found["data"]["chunks"]]
