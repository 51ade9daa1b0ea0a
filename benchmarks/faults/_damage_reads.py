"""What is read from a knowledge base after each fault, for damage.py. Every function returns something comparable."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _damage_base import DRAFTS, KEYS, LEARNED, plan_for

from surefind import Access, KnowledgeBase
from surefind.bench.run import run_bench
from surefind.bench.saved import read_report, reports_in
from surefind.desk import review
from surefind.errors import NotFoundError, StoreError, UsageError
from surefind.exam.store import ExamStore
from surefind.kb.adoption import prepare_undo
from surefind.kb.changes import compare, compare_texts
from surefind.kb.decisions import decisions
from surefind.kb.queries import QueryLog
from surefind.llm.cache import CompletionCache
from surefind.train.fusion import UnreadableModel, manifests
from surefind.train.report import prompt_reports

QUERIES = ("escrow record", "Harbor Vault Desk", "rule 17 years", "branch rules", "teller drawer 9 days")
CALLERS = (Access.public(), Access.of("hr"), Access.owner())


def searched(pipeline: str) -> Callable[[KnowledgeBase], Any]:
    def read(kb: KnowledgeBase) -> Any:
        return [_hits(kb.search(q, access, 10, pipeline).hits) for q in QUERIES for access in CALLERS]

    return read


def _hits(hits: Any) -> Any:
    return [
        (h.document, h.id, h.title, h.headings, h.start, h.end, h.text, dict(h.metadata), h.location, h.score)
        for h in hits
    ]


def earlier(kb: KnowledgeBase) -> Any:
    reader = kb.reader_of(1)
    return [_hits(reader.search(q, CALLERS[1], kb.pipeline("words")).hits) for q in QUERIES]


def documents(kb: KnowledgeBase) -> Any:
    return [kb.documents(access) for access in CALLERS], [(d.document, d.readers, d.reason) for d in decisions(kb)]


def history(kb: KnowledgeBase) -> Any:
    kept = kb.generations(), kb.desk.waiting(), [kb.history(f"{i:02}.md") for i in range(6)]
    return kept, compare(kb.catalogue), compare_texts(kb.catalogue, "03.md")


def drafts(kb: KnowledgeBase) -> Any:
    """All that the desk keeps. An error that says that there is no such draft is a draft that was lost in silence."""
    try:
        return _drafts(kb)
    except (UsageError, NotFoundError) as error:
        return str(error)


def _drafts(kb: KnowledgeBase) -> Any:
    """The first draft is that of a file, and has one revision."""
    desk, numbers = kb.desk, range(1, DRAFTS + 2)
    lists = desk.waiting(), desk.recent(5), desk.count(), desk.all_authors()
    each = [(desk.get(n), desk.authors(n), desk.base(n), desk.keeps(n), desk.events(n)) for n in numbers]
    texts = [desk.revision(n, revision) for n in numbers for revision in (1, 2) if (n, revision) != (1, 2)]
    files = [desk.file_of(100 + i) for i in range(DRAFTS)]
    return lists, each, texts, files, [(review.comments(desk, n), desk.signed(n)) for n in numbers]


def status(kb: KnowledgeBase) -> Any:
    found = kb.status()
    counts = found.documents, found.chunks, found.restricted, found.drafts
    return counts, found.sources, found.problems, sorted(found.indexes)


def exams(kb: KnowledgeBase) -> Any:
    store = ExamStore(kb.data / "exams")
    log = [(kept.query, kept.hits, kept.at) for kept in QueryLog(kb.data, 90).all()]
    return store.all(), store.candidates("asked").all(), log


def reports(kb: KnowledgeBase) -> Any:
    return [read_report(kb.data / "reports" / "first").rows, [report.recommended for report in reports_in(kb.data)]]


def bench(kb: KnowledgeBase) -> Any:
    report = run_bench(kb, plan_for(ExamStore(kb.data / "exams").load("known-item", 1)), "surefind bench").report
    return [(row.name, row.measures, row.scores) for row in report.rows], report.recommended


def models(kb: KnowledgeBase) -> Any:
    found = manifests(kb)
    for one in found:
        if isinstance(one, UnreadableModel):  # listed with the reason
            raise StoreError(one.unreadable)
    return found, prompt_reports(kb.data / "models")


def caches(kb: KnowledgeBase) -> Any:
    """Values that are missing from a cache are made again, so only wrong ones count."""
    assert kb.services.scores is not None
    answers = CompletionCache(kb.data / "cache" / "answers.db")
    found = {i: one for i, key in enumerate(KEYS) if (one := answers.get([key]).get(key))}
    answers.close()
    scores = {i: one for i, key in enumerate(KEYS) if (one := kb.services.scores.get([key]).get(key))}
    wrong_answers = [one for i, one in found.items() if (one.text, one.dollars) != (f"answer {i}", 0.25 * i)]
    return wrong_answers, [i for i, one in scores.items() if one != _score(i)]


def _score(i: int) -> bytes:
    import numpy as np

    return np.full(1, i, np.float64).tobytes()


def undo(kb: KnowledgeBase) -> Any:
    return prepare_undo(kb.folder).after


def synced(kb: KnowledgeBase) -> Any:
    """The next sync, with all indexes built again: damage must not get into them."""
    shutil.rmtree(kb.data / "indexes")
    path = Path(kb.folder, "docs", "new.md")
    path.write_text("# New\n\nThe Harbor Claim Desk opens the new vault.")
    kb.sync(kb.folder / "docs")
    return [searched(name)(kb) for name in ("words", "hybrid", "graph")], documents(kb)


READS: dict[str, Callable[[KnowledgeBase], Any]] = {
    "words": searched("words"),
    "hybrid": searched("hybrid"),
    "graph": searched("graph"),
    "learned": searched(LEARNED),
    "earlier": earlier,
    "documents": documents,
    "history": history,
    "drafts": drafts,
    "status": status,
    "exams": exams,
    "reports": reports,
    "models": models,
    "caches": caches,
    "undo": undo,
    "bench": bench,
    "synced": synced,
}
