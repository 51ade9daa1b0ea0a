"""Damage in the other files below `.surefind`: exams, candidates, reports, runs, models, records, kept queries."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import Home
from report_helpers import row, save_report
from surefind import Access
from surefind.base.disk.sealed import list_files, sealed, to_json, write_sealed
from surefind.base.errors import CorruptIndexError, ExamError, StoreError, SurefindError, UsageError
from surefind.base.types import Document, ExamName, Rankings
from surefind.engine.files.git import left_out
from surefind.engine.fuse.learned import read_manifest
from surefind.engine.inference.folder import check_record, questions_trained_on
from surefind.engine.inference.provenance import FusionManifest, FusionTraining
from surefind.engine.llm.trained import TrainedPrompt, read_prompt, save_prompt
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.store.database import file_version
from surefind.kb.adoption import last_change, prepare, write
from surefind.kb.queries import QueryLog
from surefind.lab.bench.reranking import RunCache
from surefind.lab.bench.saved import read_report, reports_in
from surefind.lab.exam.formats.library import Library
from surefind.lab.exam.formats.table import read_table
from surefind.lab.exam.labels import Pooled, PooledPassage
from surefind.lab.exam.model import Exam, ExamQuery, Judgment
from surefind.lab.exam.questions import Questions
from surefind.lab.exam.store import ExamStore

GOLD = (Judgment("a.md", 0, 5, 2, "alpha"), Judgment("b.md"))
EXAM = Exam(
    "mine",
    tuple(ExamQuery(f"q{i}", f"What is “{i}”?", GOLD, overlap=0.12345, metadata={"by": "me"}) for i in range(5)),
    origin="import mine.csv",
    corpus="abc",
)


def faults(path: Path, count: int) -> Any:
    """Damages a file in many ways, one after the other, and restores it."""
    whole = path.read_bytes()
    for seed in range(count):
        chance = random.Random(seed)
        at, size = chance.randrange(len(whole)), chance.choice((1, 1, 1, 4, 16))
        made = (
            whole[:at] if seed % 20 == 0 else (whole[:at] + chance.randbytes(size) + whole[at + size :])[: len(whole)]
        )
        path.write_bytes(made)
        yield seed
    path.write_bytes(whole)


def check(path: Path, read: Callable[[], Any], error: type[Exception], count: int = 120, least: int = 60) -> None:
    """Every fault gives the same result or the error, and most give the error."""
    right, noticed = repr(read()), 0
    for seed in faults(path, count):
        try:
            assert repr(read()) == right, f"wrong in silence with seed {seed}"
        except error:
            noticed += 1
    assert noticed > least
    assert repr(read()) == right


def read_or_refuse(path: Path, read: Callable[[], Any], count: int) -> None:
    """Rows of this file have no checksums: damage changes what is read, or gives one sentence, and nothing else."""
    refused = 0
    for _ in faults(path, count):
        try:
            read()
        except (StoreError, ValueError):  # a value that is JSON no more
            refused += 1
    assert refused
    assert read()


def test_exam(tmp_path: Path) -> None:
    store = ExamStore(tmp_path)
    store.save(EXAM)
    check(tmp_path / "mine/v001.jsonl", lambda: store.load("mine"), ExamError)


def test_edited_exam_is_imported_as_the_message_says(tmp_path: Path) -> None:
    store = ExamStore(tmp_path)
    store.save(EXAM)
    path = tmp_path / "mine/v001.jsonl"
    path.write_text(path.read_text().replace("What is", "What was"))
    with pytest.raises(ExamError, match=r"was edited .* a copy without its first line .* surefind exam import COPY"):
        store.load("mine")
    copy = tmp_path / "copy.jsonl"
    copy.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    library = Library([Document("a.md", "alpha and more", "A"), Document("b.md", "beta", "B")])
    assert read_table(copy, library).queries[0].text == "What was “0”?"


def test_questions_and_judgments(tmp_path: Path) -> None:
    store = ExamStore(tmp_path)
    store.candidates("mine").collect(["Who counts the drawer?", "When is the wire sent?"], "mail.txt")
    store.labels("mine").put_pool([Pooled("Who counts?", (PooledPassage("a.md", 0, 5),))], ["bm25"], "abc")
    store.labels("mine").mark("ann", "Who counts?", [0])
    kept = Questions(tmp_path)
    kept.add_feedback(1.5, "Who counts?", "a.md", 0, 5, "up", "bob")

    def read() -> Any:
        return kept.candidates("mine"), kept.pool("mine"), kept.labels("mine"), kept.feedback()

    read_or_refuse(tmp_path / "questions.db", read, 200)


def test_kept_queries(home: Home) -> None:
    home.write("docs/a.md", "alpha common")
    home.sync("docs")
    log = QueryLog(home.folder / ".surefind", 90)
    with home.open() as kb:
        for query in ("alpha", "common"):
            log.keep(kb.search(query, Access.public()), Access.public())
    read_or_refuse(log.path, log.all, 60)


def test_report(tmp_path: Path) -> None:
    folder = save_report(tmp_path, "first", row("BM25", "bm25"), row("TF-IDF", "tfidf"))
    check(folder / "report.json", lambda: read_report(folder), UsageError)


def test_damaged_report_is_not_replaced_by_an_earlier_one(tmp_path: Path) -> None:
    save_report(tmp_path, "first", row("BM25", "bm25"), age=60)
    newest = save_report(tmp_path, "second", row("TF-IDF", "tfidf"))
    (newest / "report.json").write_bytes(b"{")
    with pytest.raises(UsageError, match=r"second.report\.json is damaged"):
        next(reports_in(tmp_path / ".surefind"))


def test_run(tmp_path: Path) -> None:
    cache = RunCache(tmp_path)
    made = Rankings(np.arange(40).reshape(4, 10), np.linspace(0, 1, 40).reshape(4, 10), "bm25", "sparse", 0.5)
    cache.put_rankings("run", made)
    cache.put_data("data", {"rows": [1, 2.5, "three"]})

    def rankings() -> Any:
        found = cache.rankings("run")
        if found is None:
            raise LookupError
        return found.ids.tolist(), found.scores.tolist(), found.source, found.signal, found.floor

    def data() -> Any:
        found = cache.data("data")
        if found is None:
            raise LookupError
        return found

    check(tmp_path / "run.npz", rankings, LookupError)
    check(tmp_path / "data.json", data, LookupError)


def test_trained_fusion_model(tmp_path: Path) -> None:
    np.savez(tmp_path / "model.npz", coefficients=np.arange(4.0))
    training = FusionTraining(documents=(1, 2), learnt=("a",), alphas=())
    (tmp_path / "training.json").write_text(json.dumps(to_json(training)))
    manifest = FusionManifest(
        name="mine", model="ridge", corpus="c", layout="whole", depth=100, missing=None, retrievers=(), embedder="",
        exam=ExamName("asked", "e"), metrics={}, files=list_files(tmp_path),
    )  # fmt: skip
    write_sealed(tmp_path / "manifest.json", to_json(manifest))
    for name in ("manifest.json", "model.npz", "training.json"):
        check(tmp_path / name, lambda: read_manifest(tmp_path / "manifest.json", FusionManifest), StoreError)


def test_trained_encoder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"name": "mine", "max_tokens": 256, "sha256": {}}')
    record = sealed({"name": "mine", "model": "encoder", "learnt": ["a", "b"], "files": list_files(tmp_path)})
    (tmp_path / "record.json").write_text(json.dumps(record))

    def read() -> Any:
        check_record(tmp_path)
        return questions_trained_on(tmp_path)

    for name in ("record.json", "config.json"):
        check(tmp_path / name, read, CorruptIndexError)


def test_trained_prompt(tmp_path: Path) -> None:
    save_prompt(tmp_path, TrainedPrompt("mine", "llm_listwise", ("a",), "Rank well."), {"gain": 0.5})
    path = tmp_path / "mine/prompt.json"
    read_prompt.cache_clear()
    check(path, lambda: read_prompt.__wrapped__(path, file_version(path)), StoreError)


def test_adopted_configurations(home: Home) -> None:
    write(home.folder, prepare(home.folder, "other", Pipeline.parse("bm25(k1=2)")))
    check(home.folder / ".surefind/adopted.json", lambda: last_change(home.folder), SurefindError)


def test_record_of_a_repository(tmp_path: Path) -> None:
    """A damaged record counts as missing, and the files are extracted again."""
    (tmp_path / "left_out.json").write_text(json.dumps(sealed({"rules": "r", "left_out": [["a", "", "too large"]]})))

    def read() -> Any:
        found = left_out(tmp_path)
        if not found:
            raise LookupError
        return found

    check(tmp_path / "left_out.json", read, LookupError)
