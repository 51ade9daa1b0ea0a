"""What readers may see of a report. It quotes documents as they were readable when it was made, so a reader sees the
quotes of those that they may read today."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from surefind.lab.bench.answers_report import AnswersReport
from surefind.lab.bench.report import BenchReport, QuotedChunk, ReportRow, RerankChange

_HIDDEN_CHUNK = QuotedChunk("", "", (), "")
"""Stands for a passage that may not be shown: others are known by their place in the list."""


def readable_report(report: BenchReport, readable: Collection[str] = ()) -> BenchReport:
    """Returns a report without what its readers may not know: how many documents, passages and questions were left out
    or are there in all, fingerprints and sizes that depend on these, where the server keeps its files, and quotes of
    documents that are not `readable`. Questions stay if all their documents are readable."""
    shown = [all(name in readable for name in names) for names in report.query_documents]
    every = list(zip(report.query_ids, shown, strict=True))
    asked = {query for query, may in every if may} - {query for query, may in every if not may}
    queries = tuple(query for query in report.queries if query.id in asked)
    chunks = tuple(chunk if chunk.document in readable else _HIDDEN_CHUNK for chunk in report.chunks)
    quoted = [(chunk.document, chunk.title) for chunk in chunks]
    quoted += [(gold.document, gold.title) for query in queries for gold in query.gold]
    titles = {name for names in quoted for name in names}
    return replace(
        report,
        command=without_folder(report.command),
        exam=replace(report.exam, dropped=None, restricted=None, fingerprint=None),
        corpus=replace(report.corpus, withheld=None, chunks=None, fingerprint=None),
        rows=tuple(_row(row, asked, titles) for row in report.rows),
        query_ids=tuple(query_id if may else "" for query_id, may in every),
        query_texts=tuple(text if may else "" for text, may in zip(report.query_texts, shown, strict=True)),
        query_documents=tuple(
            documents if may else () for documents, may in zip(report.query_documents, shown, strict=True)
        ),
        queries=queries,
        chunks=chunks,
    )


def readable_answers(report: AnswersReport) -> AnswersReport:
    """Returns a report without what its readers may not know; it has no quotes."""
    exam = replace(report.exam, dropped=None, restricted=None, fingerprint=None)
    return replace(report, command=without_folder(report.command), exam=exam)


def without_folder(command: str) -> str:
    """Returns a command without the folder of the knowledge base, and what follows it."""
    return command.partition(" --kb ")[0]


def _row(row: ReportRow, asked: Collection[str], titles: Collection[str]) -> ReportRow:
    """Returns a row without the size of its indexes, whose rerankers show only the questions of `asked` and these
    `titles`."""
    steps = tuple(_step(step, asked, titles) for step in row.reranking)
    return replace(row, chunks=None, index_bytes=None, reranking=steps)


def _step(step: RerankChange, asked: Collection[str], titles: Collection[str]) -> RerankChange:
    if step.worst is None:
        return step
    shown = (question for question in step.worst if question.id in asked)
    return replace(step, worst=tuple(replace(question, top=_known(question.top, titles)) for question in shown))


def _known(top: tuple[str, str], titles: Collection[str]) -> tuple[str, str]:
    before, after = (title if title in titles else "" for title in top)
    return before, after
