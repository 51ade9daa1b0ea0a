"""`agentic-kb`: layouts, graphs, fused weights and conditional reranking, each stage on the winner of the one before.

Agentic Retrieval for Knowledge Bases: From Chunking to Reranking (982 papers, 34,647 questions by a language model).
All steps of the paper run if a model is chosen. Without one, the deterministic layouts, a graph of phrases, learned
fusion and conditional reranking by a cross-encoder run.
"""

from __future__ import annotations

from surefind.study.stage import Stage, Study
from surefind.study.studies.agentic_kb import _chunking, _fusion, _graph, _ladder, _reranking
from surefind.study.studies.agentic_kb import _fusion_tables as fusion_tables
from surefind.study.studies.agentic_kb import _reranking_tables as reranking_tables
from surefind.study.studies.agentic_kb import _tables as tables

STUDY = Study(
    "Agentic retrieval for knowledge bases",
    "Agentic Retrieval for Knowledge Bases: From Chunking to Reranking (2025)",
    (
        Stage("chunking", tables.CHUNKING, _chunking.measure, tables.chunking, _chunking.contenders),
        Stage("graph", tables.GRAPH, _graph.measure, tables.graph, _graph.contenders),
        Stage(
            "fusion",
            fusion_tables.FUSION,
            _fusion.measure,
            fusion_tables.fusion,
            _fusion.contenders,
            ("chunking",),
        ),
        Stage(
            "reranking",
            reranking_tables.RERANKING,
            _reranking.measure,
            reranking_tables.reranking,
            _reranking.contenders,
            ("chunking", "fusion"),
        ),
        Stage(
            "ladder",
            reranking_tables.LADDER,
            _ladder.measure,
            reranking_tables.ladder,
            after=("chunking", "graph", "fusion", "reranking"),
        ),
    ),
)
