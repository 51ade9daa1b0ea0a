"""`support-chatbot`: encoders, fusion with a champion, concatenation, reranking, HyDE, chunk sizes and prompts.

Retrieval Enhancements for RAG: Insights from a Deployed Customer Support Chatbot (FiQA, SciDocs, HotpotQA and help
articles of a company). Name the encoders to compare with `--encoder`; without, it is MiniLM against BM25. The
cross-encoder reads 50 passages twice for each question, so 100 questions are asked unless `--questions` says otherwise.
"""

from __future__ import annotations

from surefind.lab.study.declared import load_tables
from surefind.lab.study.stage import Study, StudyPart
from surefind.lab.study.studies.support_chatbot import _cells, _collections, _tuning
from surefind.lab.study.studies.support_chatbot import _measure as measure

_TABLES = load_tables("support_chatbot", vars(_cells))
_FIRST = ("encoders",)
_SECOND = ("encoders", "fusion")

STUDY = Study(
    "The support chatbot: a champion, and what improves it",
    "Retrieval Enhancements for RAG: Insights from a Deployed Customer Support Chatbot",
    (
        StudyPart("collections", _collections.count, _TABLES["collections"], own_layouts=True),
        StudyPart("encoders", measure.compare, _TABLES["encoders"], measure.encoders),
        StudyPart("fusion", measure.fuse, _TABLES["fusion"], measure.fused, _FIRST),
        StudyPart("concatenation", measure.join, _TABLES["concatenation"], measure.joined, _FIRST),
        StudyPart("reranking", measure.rerank, _TABLES["reranking"], measure.reranked, _SECOND),
        StudyPart("hyde", measure.plainly, _TABLES["hyde"], measure.drafted, _FIRST),
        StudyPart("chunks", measure.plainly, _TABLES["chunks"], measure.sizes, _FIRST, own_layouts=True),
        StudyPart("prompts", measure.prompt, _TABLES["prompts"], measure.prompted, _SECOND, measure.prompt_calls),
        StudyPart(
            "fine-tuning",
            _tuning.fine_tune,
            _TABLES["fine-tuning"],
            _tuning.untuned,
            _FIRST,
            _tuning.tuning_calls,
            own_layouts=True,
            version=2,
        ),
    ),
    questions=100,
    compares_encoders=True,
    compares_models=True,
    repeats=True,
    layout="fixed(tokens=2048, overlap=0)",
)
