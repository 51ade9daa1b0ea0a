"""`context-layer`: BM25, vectors and five fusions on known-item questions (Company Context Layer Retrieval Benchmark).

The page announces a table of fifteen configurations, but prints only its heading. The text names four of the rows:
BM25, vectors alone, RRF with k = 60 and vectors counted twice (then in production), and convex fusion with α = 0.3. It
gives a figure for the last three: 0.038, 0.082 and 0.729 nDCG@10. The parameters of the other rows are ours. RSF of two
retrievers is convex fusion with α = 0.5, so the two rows are equal. Without an exam, known-item questions are written
in the paper's shares of five kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from surefind.base.types import Document
from surefind.lab.bench.plan import Contender
from surefind.lab.bench.presets import PRESETS
from surefind.lab.bench.run import saved_exam
from surefind.lab.exam.by_llm.paraphrases import paraphrase_calls, write_paraphrases
from surefind.lab.exam.known_item import generate_in_shares
from surefind.lab.exam.model import Exam, ExamQuery
from surefind.lab.study.context import ExamRequest, RunContext
from surefind.lab.study.scores import row_of, summary
from surefind.lab.study.stage import Before, Study, StudyPart
from surefind.lab.study.tables import Columns, TableLine, load_tables
from surefind.lab.study.values import Cell, Result

_PRESET = PRESETS["context-layer"]
CONTENDERS = {
    **{name: text for name, text in _PRESET.contenders.items() if name != "DBSF"},
    "DBSN": "bm25 + dense >> dbsn",
}
"""Those of the preset, with the plain z-scores of the page in place of `dbsf`, which limits them."""
SHARES = {
    "heading_direct": 505,
    "entity_lookup": 537,
    "heading_paraphrase": 311,
    "exact_phrase": 213,
    "first_sentence": 140,
}
"""The paper's questions by kind. Ours have the same shares."""
_STAGE = "search"
_NAME = "context-layer"
_SEED = 42


def _exam(request: ExamRequest) -> Exam:
    """Known-item questions in the shares of the paper; where there is a language model, it rewords the headings."""
    kb = request.kb
    model = kb.services.chat_name(None) if request.asks else ""

    def write(documents: list[Document]) -> Exam:
        reworded: list[ExamQuery] = []
        if model:
            wanted = SHARES["heading_paraphrase"]
            request.agree(kb, [paraphrase_calls(model, wanted)])
            reworded = write_paraphrases(kb, documents, wanted, "", _SEED, request.report)
        return generate_in_shares(documents, SHARES, _NAME, reworded, _SEED)

    origin = f"study {_NAME} --seed {_SEED}{f', headings reworded by {model}' if model else ''}"
    return saved_exam(kb, _NAME, origin, write, request.access, request.tell)


def _contenders(context: RunContext, before: Before) -> list[Contender]:
    return context.contenders(CONTENDERS)


def _measure(context: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    scored = context.score(allowed, _PRESET.measures)
    return summary(scored, context.latency(scored))


def questions_of_kind(result: Result, kind: str) -> Cell:
    return list(result.get("families", [])).count(kind)


def mean_of_kind(result: Result, kind: str, name: str) -> Cell:
    row = row_of(result, name)
    pairs = [] if row is None else zip(row["scores"], result["families"], strict=True)
    scores = [score for score, family in pairs if family == kind]
    return sum(scores) / len(scores) if scores else None


def kinds(columns: Columns, stage: str, first: Sequence[str]) -> list[TableLine]:
    """The kinds of the paper's questions, then other kinds."""
    counted = [kind for column in columns for kind in sorted(column.results[stage].get("families", []))]
    return [TableLine(kind) for kind in dict.fromkeys([*first, *counted])]


STUDY = Study(
    "Company Context Layer: retrieval benchmark",
    "Company Context Layer Retrieval Benchmark (1,706 questions over 109 files of a credit union)",
    (StudyPart(_STAGE, _measure, load_tables("context_layer", globals())[_STAGE], _contenders),),
    layout="fixed(tokens=500, overlap=50)",
    exam=_exam,
)
