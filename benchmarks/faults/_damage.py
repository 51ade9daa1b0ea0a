"""What damage.py needs: a small knowledge base that has every kind of file below `.surefind`, and what is read from it
after each fault. Every function that reads returns something comparable.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from surefind import Access, KnowledgeBase
from surefind.base.disk.sealed import to_json
from surefind.base.errors import NotFoundError, StoreError, UsageError
from surefind.base.prompts.values import Completion
from surefind.base.types import ExamName
from surefind.engine.embed.minilm import MiniLM
from surefind.engine.llm.chat import CompletionCache
from surefind.engine.llm.trained import TrainedPrompt, save_prompt
from surefind.engine.search.pipeline import Pipeline
from surefind.kb.adoption import prepare, prepare_undo, write
from surefind.kb.changes import compare, compare_texts
from surefind.kb.drafts import review
from surefind.kb.drafts.store import Content
from surefind.kb.drafts.values import Base
from surefind.kb.queries import QueryLog
from surefind.kb.rights import decisions
from surefind.lab.bench.files import write_files
from surefind.lab.bench.plan import Contender, Plan, parse_measures
from surefind.lab.bench.run import run_bench
from surefind.lab.bench.saved import read_report, reports_in
from surefind.lab.exam.known_item import generate
from surefind.lab.exam.model import Exam
from surefind.lab.exam.store import ExamStore
from surefind.lab.train.fusion import UnreadableModel, manifests, train_fusion
from surefind.lab.train.report import ListwiseReport, SampledQuestions, prompt_reports

SETTINGS = """
[search]
pipeline = "words"
[pipelines.words]
retrieve = ["bm25"]
[pipelines.hybrid]
retrieve = ["bm25", "dense"]
fuse = "convex(alpha=0.3)"
[pipelines.graph]
retrieve = ["entity_overlap"]
"""
DRAFTS = 16
LEARNED = "bm25 + tfidf >> learned(model=ridge-known-item)"
KEYS = [bytes([i]) * 16 for i in range(20)]
NOUNS = "ledger wire member branch claim audit policy escrow teller vault drawer mortgage".split()
VERBS = "files checks signs counts closes reviews opens records".split()


def cheap_vectors(self: MiniLM, texts: list[str], progress: object = None) -> np.ndarray:
    """Replaces the encoder: a random unit vector for each text, the same for the same text."""
    vectors = np.stack([np.random.default_rng(list(text.encode()[:200])).normal(size=384) for text in texts])
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def build(home: Path) -> None:
    """Builds the knowledge base: two generations, drafts, access lists, a repository, exams, a report, models."""
    MiniLM.embed = cheap_vectors  # type: ignore[method-assign, assignment]
    (home / "docs").mkdir(parents=True)
    (home / "surefind.toml").write_text(SETTINGS)
    for i in range(16):
        _write(home / "docs" / f"{i:02}.md", _document(i))
    _write(home / "docs" / "long.md", "# Long\n\n" + "\n\n".join(_paragraph(i) for i in range(400)))
    with KnowledgeBase.open(home) as kb:
        kb.sync(home / "docs")
        _write(home / "docs" / "03.md", _document(3).replace("Harbor", "Quay"))
        (home / "docs" / "04.md").unlink()
        kb.sync(home / "docs", _repository(home))
        _write(home / "draft.md", "# Draft\n\nA draft about the vault.")
        kb.drafts.add(home / "draft.md", "05.md")
        _write_drafts(kb, range(DRAFTS // 2))
        _measure(kb)
        _remember(kb)
    _leave_log(home)


def _write_drafts(kb: KnowledgeBase, numbers: range) -> None:
    """Makes drafts in every state, with revisions, comments, approvals and events."""
    store = kb.drafts.store
    for i in numbers:
        first, second = (f"# Draft {i}\n\n{_paragraph(j)}\n" for j in (i, i + 1))
        made = store.add(f"{i:02}.md", _content(first), f"author {i % 3}", Base(i, "c" * 64, _paragraph(i)))
        store.save(made.number, 1, _content(second), f"author {i % 4}")
        asked = review.comment(store, made.number, 2, 1, "bob", f"Is number {i} right?")
        review.comment(store, made.number, 2, 1, "ada", "It is.", reply_to=asked.number)
        review.resolve(store, made.number, asked.number, "bob")
        store.set_state(made.number, "in review", "ada", "submitted")
        review.approve(store, made.number, 2, f"reviewer {i % 3}")
        if i % 3 == 0:
            store.published(made.number, 2, Base(100 + i, "d" * 64, second), i + 1, "ada")
        elif i % 3 == 1:
            store.set_state(made.number, "draft" if i % 2 else "discarded", "ada", "changed its state")


def _content(text: str) -> Content:
    return Content("draft.md", text.encode(), text, "Draft", ("hr",), len(text))


def _leave_log(home: Path) -> None:
    """Writes the other half of the drafts, and leaves them in the log of SQLite, as a killed server does."""
    data = home / ".surefind"
    with KnowledgeBase.open(home) as kb:
        _write_drafts(kb, range(DRAFTS // 2, DRAFTS))
        kept = {path: path.read_bytes() for path in data.glob("drafts.db*") if not path.name.endswith("-shm")}
    for path in data.glob("drafts.db*"):
        path.unlink()
    for path, content in kept.items():
        path.write_bytes(content)


def without_log(home: Path) -> None:
    """Moves what is in the log of the store into its file: a page in the log hides that in the file."""
    db = sqlite3.connect(home / ".surefind" / "drafts.db")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def _document(i: int) -> str:
    acl = "acl: [hr]\n" if i % 5 == 2 else ""
    head = f"---\n{acl}department: {NOUNS[i % 3]}\n---\n# {NOUNS[i % 12].title()} Handbook {i}\n\n"
    return head + "\n\n".join(f"## Section {j} of {i}\n\n{_paragraph(i * 7 + j)}" for j in range(4))


def _paragraph(i: int) -> str:
    noun, verb, other = NOUNS[i % 12], VERBS[i % 8], NOUNS[(i * 5 + 3) % 12]
    return (
        f"The Harbor {noun.title()} Desk {verb} the {other} number {i} within {i % 9 + 1} days. "
        f"Rule {i} says that the {other} of the Harbor {noun.title()} Desk is kept for {i % 30 + 1} years."
    )


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    then = time.time() - 3600
    os.utime(path, (then, then))


def _repository(home: Path) -> str:
    folder = home / "repository"
    folder.mkdir()
    (folder / "git.md").write_text("# Branch rules\n\nThe Harbor Audit Desk reviews the branch twice a year.\n")
    author = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    for words in (["init", "-q"], ["add", "-A"], [*author, "commit", "-q", "-m", "one"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return f"git+file://{folder}"


def _measure(kb: KnowledgeBase) -> None:
    made = generate(kb.documents(Access.owner()), per_family=40)
    store = ExamStore(kb.data / "exams")
    exam = store.save(Exam("known-item", made.queries, corpus=kb.reader().fingerprint))
    store.save(Exam("known-item", made.queries[:-3], corpus=kb.reader().fingerprint))
    store.candidates("asked").collect(["How long is the escrow record kept?", "Who signs the wire ledger?"], "mail.txt")
    write_files(run_bench(kb, plan_for(exam), "surefind bench").report, kb.data / "reports" / "first")
    kb.build("bm25 + tfidf")
    train_fusion(kb, exam, "ridge", ["bm25", "tfidf"])


def plan_for(exam: Exam) -> Plan:
    contenders = tuple(Contender(name, Pipeline.parse(name)) for name in ("bm25", "tfidf"))
    return Plan(contenders, exam, tuple(parse_measures(["nDCG@10"])))


def _remember(kb: KnowledgeBase) -> None:
    """Fills the caches and the small files."""
    assert kb.services.scores is not None
    kb.services.scores.put([(key, np.full(1, i, np.float64).tobytes()) for i, key in enumerate(KEYS)])
    answers = CompletionCache(kb.data / "cache" / "answers.db")
    for i, key in enumerate(KEYS):
        answers.put(key, Completion(f"answer {i}", i, 2 * i, 0.25 * i, model="m", seconds=0.5))
    answers.close()
    QueryLog(kb.data, 90).keep(kb.search("escrow record", Access.public()), Access.public())
    report = ListwiseReport(
        name="asked", step="llm_listwise", exam=ExamName("asked", "e"), surefind="0.1", created="2026-01-01T00:00:00",
        corpus="c", pipeline="bm25", use="", questions=SampledQuestions(2, 2), failures=(), hardest="",
        system_prompt="Rank well.",
    )  # fmt: skip
    prompt = TrainedPrompt("asked", "llm_listwise", ("a", "b"), "Rank well.")
    save_prompt(kb.data / "models", prompt, to_json(report))
    write(kb.folder, prepare(kb.folder, "words", kb.pipeline("bm25(k1=1.5)")))


QUERIES = ("escrow record", "Harbor Vault DraftStore", "rule 17 years", "branch rules", "teller drawer 9 days")
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
    reader = kb.reader_of(kb.generations()[0].number)
    return [_hits(reader.search(q, CALLERS[1], kb.pipeline("words")).hits) for q in QUERIES]


def documents(kb: KnowledgeBase) -> Any:
    return [kb.documents(access) for access in CALLERS], [(d.document, d.readers, d.reason) for d in decisions(kb)]


def history(kb: KnowledgeBase) -> Any:
    return compare(kb.catalogue), compare_texts(kb.catalogue, "03.md")


def drafts(kb: KnowledgeBase) -> Any:
    """The revisions of all drafts. The first draft is that of a file, and has one. An error that says that there is no
    such draft is a draft that was lost in silence."""
    try:
        store, numbers = kb.drafts.store, range(1, DRAFTS + 2)
        texts = [store.revision(n, revision) for n in numbers for revision in (1, 2) if (n, revision) != (1, 2)]
        return texts, [store.signed(n) for n in numbers]
    except (UsageError, NotFoundError) as error:
        return str(error)


def status(kb: KnowledgeBase) -> Any:
    found = kb.status()
    return found.documents, found.chunks, found.restricted, sorted(found.indexes)


def exams(kb: KnowledgeBase) -> Any:
    store = ExamStore(kb.data / "exams")
    _ = store.candidates("asked").all(), QueryLog(kb.data, 90).all()  # their rows have no checksums
    return store.all()


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
