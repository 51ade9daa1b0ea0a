"""`champion`: one retriever, alone and in reciprocal rank fusion with each of the others.

The table of the support-chatbot study. Its champion was the embedding model with the best R@50 alone; a second
retriever raised R@10 by up to 3.8 points, but BM25 lowered it on all four data sets. Here the champion is the bundled
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
