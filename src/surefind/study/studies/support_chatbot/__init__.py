"""`support-chatbot`: encoders, fusion with a champion, concatenation, reranking, HyDE, chunk sizes and prompts.

Retrieval Enhancements for RAG: Insights from a Deployed Customer Support Chatbot (FiQA, SciDocs, HotpotQA and help
articles of a company). Name the encoders to compare with `--encoder`; without, it is MiniLM against BM25. The
cross-encoder reads 50 passages twice for each question, so 100 questions are asked unless `--questions` says otherwise.
"""

from __future__ import annotations

from surefind.study.stage import Stage, Study
from surefind.study.studies.support_chatbot import _measure as measure
from surefind.study.studies.support_chatbot import _tables as tables

_FIRST = ("encoders",)
_SECOND = ("encoders", "fusion")

STUDY = Study(
    "The support chatbot: a champion, and what improves it",
    "Retrieval Enhancements for RAG: Insights from a Deployed Customer Support Chatbot",
    (
        Stage("encoders", ("Table 2", "Table 11"), measure.compare, tables.encoders, measure.encoders),
        Stage("fusion", ("Table 3", "Table 12"), measure.fuse, tables.fusion, measure.fused, _FIRST),
        Stage("concatenation", ("Table 9", "Table 10"), measure.join, tables.concatenation, measure.joined, _FIRST),
        Stage(
            "reranking", ("Table 4", "Table 13", "Table 5"), measure.rerank, tables.reranking, measure.reranked, _SECOND
        ),
        Stage("hyde", ("Appendix E",), measure.plainly, tables.hyde, measure.drafted, _FIRST),
        Stage("chunks", ("Table 6",), measure.plainly, tables.sizes, measure.sizes, _FIRST),
        Stage("prompts", ("Table 7",), measure.prompt, tables.prompts, measure.prompted, _SECOND, measure.prompt_calls),
        Stage("fine-tuning", ("Table 8",), measure.fine_tune, tables.tuning, after=_FIRST),
    ),
    questions=100,
    compares_encoders=True,
    compares_models=True,
    layout="fixed(tokens=2048, overlap=0)",
)
