"""Which questions of an exam a caller may see."""

from __future__ import annotations

from surefind.base.access import Access
from surefind.engine.search.reader import Searcher
from surefind.lab.exam.model import Exam, ExamQuery


def readable_questions(exam: Exam, reader: Searcher, access: Access) -> list[ExamQuery]:
    """Returns the questions all of whose passages the caller may read. A question about a document that is gone shows
    only to callers who may read everything: nobody knows who might have read it."""
    if access.sees_all:
        return list(exam.queries)
    admitted = set(reader.view.admitted(access))
    return [
        query
        for query in exam.queries
        if all(judgment.document in admitted for judgment in (*query.judgments, *query.segments))
    ]
