"""`graph`: retrieval with and without the graph, alone and fused, on passages with and without context.

The comparison of the agentic-knowledge-base study (Figure 4 and Table 3): no graph, graph + hierarchical, graph +
context. In the study the graph raised T5EM but halved T1EM, so it was left out. Here the context is the headings above
a passage, which cost nothing. The preset adds random walks that also start from the nearest passages (`ppr`), the
cascade study's `entity_overlap`, and fusions with BM25 and vectors. The report says whether the graph improves results.
"""

from __future__ import annotations

CONTENDERS = {
    "no graph": "dense",
    "graph": "graph_local(hops=2)",
    "entity overlap": "entity_overlap",
    "walks": "ppr",
    "BM25 + dense": "bm25 + dense >> weighted(weights=[1, 1], missing=score)",
    "BM25 + dense + graph": "bm25 + dense + graph_local(hops=2) >> weighted(weights=[1, 1, 1], missing=score)",
    "BM25 + dense + walks": "bm25 + dense + ppr >> weighted(weights=[1, 1, 2], missing=score)",
}
LAYOUTS = {
    "hierarchical": "hierarchical(parent=2000, child=500, overlap=50)",
    "context": "hierarchical(parent=2000, child=500, overlap=50) + headings",
}
MEASURES = ("T1EM", "T5EM", "T1C", "MC", "MRR", "T1O", "BO")
