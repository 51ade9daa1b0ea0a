"""`champion`: one retriever, and its reciprocal rank fusion with each of the others.

The table of the support-chatbot study: its champion was the embedding model with the best R@50 on its own, and a
partner raised R@10 by up to 3.8 points; BM25 as partner lowered it on all four sets. Here the champion is the bundled
encoder.
"""

from __future__ import annotations

CONTENDERS = {
    "Champion (dense)": "dense",
    "Champion + BM25": "dense + bm25 >> rrf(k=60)",
    "Champion + TF-IDF": "dense + tfidf >> rrf(k=60)",
    "Champion + sparse": "dense + sparse >> rrf(k=60)",
}
MEASURES = ("nDCG@10", "nDCG@50", "R@10", "R@50")
