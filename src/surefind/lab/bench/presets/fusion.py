"""`fusion`: fixed weights of BM25 and vectors (`tm2c2`), from BM25 alone (α = 0) to vectors alone (α = 1).

The static rows of Table 4 of the agentic-knowledge-base study. Of these, BM25 alone (α = 0) was best on questions about
one file, of one hop (T1EM 0.573) and of two (0.552, against 0.544 for α = 0.3); on two hops over two files α = 0.5 was
best (0.435, against 0.402 for BM25 alone). For its learned rows, train models for these two retrievers (`surefind train
fusion --model ridge | xgboost | mlp …`); on the exam that a model was trained on, all configurations are measured on
the held-out half. The oracles are printed below the table and shown in the report (`bench.sweep`).
"""

from __future__ import annotations

CONTENDERS = {
    "α=0": "bm25 + dense >> tm2c2(alpha=0.0)",
    "α=0.3": "bm25 + dense >> tm2c2(alpha=0.3)",
    "α=0.5": "bm25 + dense >> tm2c2(alpha=0.5)",
    "α=0.7": "bm25 + dense >> tm2c2(alpha=0.7)",
    "α=1": "bm25 + dense >> tm2c2(alpha=1.0)",
}
MEASURES = ("nDCG@10", "T1EM", "T1C", "T1O", "MRR")
