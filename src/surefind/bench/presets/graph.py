"""`graph`: with and without the graph, on passages as they are and with context, alone and fused.

The comparison of the agentic-knowledge-base study (Figure 4 and Table 3): no graph, graph + hierarchical, graph +
context. There the graph raised T5EM and lost T1EM by half, so it was left out. Here the context is the headings above a
passage, which costs nothing, and beside the study's local search stand walks that start from the nearest passages too
(`ppr`), the cascade study's `entity_overlap`, and their fusions with BM25 and vectors. The report says in words whether
the graph pays.
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
