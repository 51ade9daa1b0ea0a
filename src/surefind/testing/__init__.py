"""Contract suites: check the rules that every stage of a kind must follow, for plugin authors and our own tests.

    from surefind.testing import check_chunker

    def test_my_chunker_keeps_the_contract():
        check_chunker(MyChunker(tokens=100))

Each check raises `AssertionError` with a message that names the broken rule and the input that broke it. The checks use
samples (`DOCUMENTS`, `TEXTS`, `FUSER_ROWS`) by default; pass your own if a stage needs a special kind of input.
"""

from surefind.testing.retrievers import check_retriever
from surefind.testing.stages import (
    DOCUMENTS,
    FUSER_ROWS,
    TEXTS,
    TOLERANCE,
    Row,
    check_analyzer,
    check_chunker,
    check_declared,
    check_embedder,
    check_enricher,
    check_fuser,
    check_rankings,
    check_reader,
    check_reranker,
    check_stage,
    rankings_of,
)

__all__ = [
    "DOCUMENTS",
    "FUSER_ROWS",
    "TEXTS",
    "TOLERANCE",
    "Row",
    "check_analyzer",
    "check_chunker",
    "check_declared",
    "check_embedder",
    "check_enricher",
    "check_fuser",
    "check_rankings",
    "check_reader",
    "check_reranker",
    "check_retriever",
    "check_stage",
    "rankings_of",
]
