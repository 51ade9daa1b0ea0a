"""Table 1 of the support-chatbot study: questions, relevant documents, passages of two sizes, tokens of documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from surefind.base.text.tokens import token_spans
from surefind.lab.bench.plan import Contender
from surefind.lab.study.desk import RunContext
from surefind.lab.study.stage import Before
from surefind.lab.study.studies.support_chatbot import _paper as paper

KEYS = ("queries", "relevant", "chunks_512", "chunks_2048", "documents", "median", "p75", "max")
"""The columns of Table 1."""


def count(desk: RunContext, before: Before, allowed: Sequence[Contender]) -> dict[str, Any]:
    """Counts what the questions search. A passage without overlap begins every 512 or 2048 tokens."""
    tokens = np.array([len(token_spans(document.text)) for document in desk.kb.documents(desk.access)] or [0])
    relevant = [len({j.document for j in query.judgments if j.grade > 0}) for query in desk.exam.queries]
    small, large = (int(np.maximum(1, -(-tokens // size)).sum()) for size in paper.TUNED_SIZES)
    values = (
        len(desk.exam.queries),
        float(np.mean(relevant)) if relevant else 0.0,
        small,
        large,
        len(tokens),
        float(np.median(tokens)),
        float(np.percentile(tokens, 75)),
        int(tokens.max()),
    )
    return dict(zip(KEYS, values, strict=True))
