"""Adapts an exam to edited documents: a gold passage that moved is found again by its quoted beginning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from surefind.lab.exam.model import Exam, ExamQuery, Judgment


def relocate(exam: Exam, texts: Mapping[str, str]) -> tuple[Exam, int]:
    """The exam with offsets into the current documents, and the number of questions left out because their passage or
    document is gone."""
    kept = [moved for query in exam.queries if (moved := _query(query, texts))]
    return replace(exam, queries=tuple(kept)), len(exam.queries) - len(kept)


def _query(query: ExamQuery, texts: Mapping[str, str]) -> ExamQuery | None:
    judgments, segments = (
        tuple(moved for j in places if (moved := locate(j, texts))) for places in (query.judgments, query.segments)
    )
    answered = any(j.is_answer for j in query.judgments)
    if not any(j.is_answer if answered else j.grade > 0 for j in judgments):
        return None
    if (judgments, segments) == (query.judgments, query.segments):
        return query
    return replace(query, judgments=judgments, segments=segments)


def locate(j: Judgment, texts: Mapping[str, str]) -> Judgment | None:
    """The judgment with offsets into these texts; None if its passage or document is not in them."""
    text = texts.get(j.document)
    if text is None:
        return None
    if j.start is None or j.end is None or not j.quote or text.startswith(j.quote, j.start):
        return j if j.end is None or j.end <= len(text) else None
    at = text.find(j.quote)
    if at < 0 or text.find(j.quote, at + 1) >= 0:
        return None
    return replace(j, start=at, end=min(len(text), at + j.end - j.start))
