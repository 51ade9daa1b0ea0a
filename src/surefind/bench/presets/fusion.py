"""`fusion`: fixed weights of BM25 and vectors scaled from their theoretical minimum, from words alone to meaning alone.

The static rows of the agentic-knowledge-base study's Table 4, where words alone won on single-hop questions and α = 0.3
to 0.5 on multi-hop ones. Its learned rows are the models of the knowledge base for these two retrievers (`surefind
train fusion --model ridge | xgboost | mlp …`); on the exam that one learnt from, all are asked the held-out half. The
oracle stands below the table, and in the report (`bench.sweep`).
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
