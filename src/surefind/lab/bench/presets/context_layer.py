"""`context-layer`: fifteen configurations of BM25, vectors and five fusions on known-item questions.

After the company-context-layer study (1,706 questions over the manuals of a credit union). The study announces a table
of fifteen configurations and does not print it. Its text names four of the rows: BM25, vectors alone (0.038 nDCG@10),
the RRF then in production (k = 60, vectors counted twice: 0.082) and convex fusion with α = 0.3 (0.729). The other rows
are ours. RSF of two retrievers is convex fusion with α = 0.5, so the two share a row. `surefind study context-layer`
shows the study's figures beside yours. The study's DBSN is the sum of z-scores (`dbsn`); the row here is `dbsf`, which
limits them.
"""

from __future__ import annotations

CONTENDERS = {
    "BM25": "bm25",
    "Vector": "dense",
    "RRF k=10": "bm25 + dense >> rrf(k=10)",
    "RRF k=20": "bm25 + dense >> rrf(k=20)",
    "RRF k=60": "bm25 + dense >> rrf(k=60)",
    "RRF k=60 (vector 2:1)": "bm25 + dense >> rrf(k=60, weights=[1, 2])",
    "RRF k=60 (BM25 2:1)": "bm25 + dense >> rrf(k=60, weights=[2, 1])",
    "Convex α=0.1": "bm25 + dense >> convex(alpha=0.1)",
    "Convex α=0.2": "bm25 + dense >> convex(alpha=0.2)",
    "Convex α=0.3": "bm25 + dense >> convex(alpha=0.3)",
    "Convex α=0.5": "bm25 + dense >> convex(alpha=0.5)",
    "Convex α=0.7": "bm25 + dense >> convex(alpha=0.7)",
    "RSF": "bm25 + dense >> rsf",
    "DBSF": "bm25 + dense >> dbsf",
    "CombMNZ": "bm25 + dense >> combmnz",
}
MEASURES = ("nDCG@10", "R@5", "R@10", "RR@10", "P@5")
