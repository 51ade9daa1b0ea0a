"""`agentic-kb`: layouts, graphs, fused weights and conditional reranking, each stage on the winner of the one before.

Agentic Retrieval for Knowledge Bases: From Chunking to Reranking (982 papers, 34,647 questions by a language model).
All steps of the paper run if a model is chosen. Without one, the deterministic layouts, a graph of phrases, learned
fusion and conditional reranking by a cross-encoder run.
"""

from __future__ import annotations

from surefind.lab.study.stage import Study, StudyPart
from surefind.lab.study.studies.agentic_kb import _cells, _fusion, _layering, _reranking
from surefind.lab.study.studies.agentic_kb._setting import LAYOUTS
from surefind.lab.study.tables import load_tables

_TABLES = load_tables("agentic_kb", vars(_cells))
STUDY = Study(
    "Agentic retrieval for knowledge bases",
    "Agentic Retrieval for Knowledge Bases: From Chunking to Reranking (2025)",
    (
        StudyPart("chunking", _layering.cut, _TABLES["chunking"], _layering.cuts, own_layouts=True),
        StudyPart("graph", _layering.link, _TABLES["graph"], _layering.links, own_layouts=True),
        StudyPart(
            "fusion", _fusion.measure, _TABLES["fusion"], _fusion.contenders, ("chunking",), own_layouts=True, version=2
        ),
        StudyPart(
            "reranking",
            _reranking.measure,
            _TABLES["reranking"],
            _reranking.contenders,
            ("chunking", "fusion"),
            own_layouts=True,
        ),
        StudyPart(
            "ladder",
            _reranking.climb,
            _TABLES["ladder"],
            after=("chunking", "graph", "fusion", "reranking"),
            own_layouts=True,
        ),
    ),
    layouts=LAYOUTS,
    limits=True,
)
