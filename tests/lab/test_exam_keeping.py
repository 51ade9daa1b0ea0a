"""Keeping a query and its hit as a question of an exam."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from helpers import Home, ask
from http_helpers import serving
from surefind import Access, KnowledgeBase
from surefind.base.errors import ExamError, NotFoundError, QueryError
from surefind.doors.auth.keys import Keys
from surefind.lab.exam.keeping import keep
from surefind.lab.exam.model import Exam
from surefind.lab.exam.store import ExamStore


@pytest.fixture
def bank(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.write("docs/wire.md", "# Wires\n\nThe cutoff of wires is 4 pm.")
    home.write("docs/late.md", "# Late wires\n\nA late wire goes out after the cutoff, on the next day.")
    home.write("docs/pay.md", "---\nacl: [hr]\n---\n# Pay\n\nThe zebra cutoff is secret.")
    home.sync("docs")
    return home


def hits(kb: KnowledgeBase, query: str, *groups: str) -> dict[str, str]:
    """document -> id"""
    return {hit.document: hit.id for hit in ask(kb, query, groups=groups).hits}


def exam(kb: KnowledgeBase, name: str = "kept") -> Exam:
    return ExamStore(kb.data / "exams").load(name)


def test_a_kept_question_has_its_passage_as_gold(bank: Home) -> None:
    with bank.open() as kb:
        kept = keep(kb, "  when is   the cutoff? ", hits(kb, "cutoff")["wire.md"], Access.public())
        (query,) = exam(kb).queries
        assert (kept.exam, kept.version, kept.added) == ("kept", 1, True)
        assert query.text == "when is the cutoff?" and query.family == "asked"
        (gold,) = query.judgments
        text = kb.reader().document("wire.md", Access.public())[0].text
        assert "4 pm" in text[gold.start : gold.end]
        assert query.overlap == 1.0  # `cutoff` is the only content word


def test_the_same_question_is_kept_once_and_gets_further_passages(bank: Home) -> None:
    with bank.open() as kb:
        ids = hits(kb, "cutoff")
        assert keep(kb, "cutoff of wires", ids["wire.md"], Access.public()).added
        assert not keep(kb, "Cutoff of wires?", ids["wire.md"], Access.public()).added
        assert keep(kb, "Cutoff of wires?", ids["late.md"], Access.public()).added
        (query,) = exam(kb).queries
        assert query.text == "cutoff of wires" and [one.document for one in query.judgments] == ["wire.md", "late.md"]


def test_questions_of_an_hour_are_one_version_and_later_ones_another(bank: Home) -> None:
    with bank.open() as kb:
        ids = hits(kb, "cutoff")
        versions = [keep(kb, f"question {i}", ids["wire.md"], Access.public()).version for i in range(3)]
        path = kb.data / "exams" / "kept" / "v001.jsonl"
        os.utime(path, (0, 0))
        versions.append(keep(kb, "question 4", ids["wire.md"], Access.public()).version)
        assert versions == [1, 1, 1, 2]
        assert len(ExamStore(kb.data / "exams").load("kept", 1).queries) == 3 and len(exam(kb).queries) == 4


def test_a_passage_that_the_caller_may_not_read_cannot_be_kept(bank: Home) -> None:
    with bank.open() as kb:
        secret = hits(kb, "zebra", "hr")["pay.md"]
        with pytest.raises(NotFoundError):
            keep(kb, "zebra", secret, Access.public())
        assert ExamStore(kb.data / "exams").names() == []
        assert keep(kb, "zebra", secret, Access.of("hr")).added


def test_generated_exams_odd_names_and_empty_questions_are_refused(bank: Home) -> None:
    with bank.open() as kb:
        key = hits(kb, "cutoff")["wire.md"]
        ExamStore(kb.data / "exams").save(Exam("known-item", (), generator=3))
        with pytest.raises(ExamError, match="generated"):
            keep(kb, "cutoff", key, Access.public(), "known-item")
        with pytest.raises(ExamError, match="cannot be called"):
            keep(kb, "cutoff", key, Access.public(), "../kept")
        with pytest.raises(QueryError):
            keep(kb, "  ", key, Access.public())


def test_questions_that_are_kept_at_the_same_time_are_all_there(bank: Home) -> None:
    with bank.open() as kb:
        key = hits(kb, "cutoff")["wire.md"]
        with ThreadPoolExecutor(8) as pool:
            done = list(pool.map(lambda i: keep(kb, f"question {i}", key, Access.public()), range(24)))
        assert all(one.added for one in done)
        assert {one.text for one in exam(kb).queries} == {f"question {i}" for i in range(24)}


def test_reviewers_keep_questions_over_http_and_readers_do_not(bank: Home) -> None:
    keys = Keys(bank.folder / ".surefind")
    reader, reviewer = (keys.create(scope, [scope])[1] for scope in ("read", "review"))
    with bank.open() as kb:
        secret, public = hits(kb, "zebra", "hr")["pay.md"], hits(kb, "cutoff")["wire.md"]
    with serving(bank.folder) as server:
        with server.client(reader) as client:
            assert client.post("/v1/exams/kept/questions", json={"query": "cutoff", "id": public}).status_code == 403
        with server.client(reviewer) as client:
            answer = client.post("/v1/exams/kept/questions", json={"query": "cutoff", "id": public})
            assert answer.status_code == 201, answer.text
            assert answer.json() == {"exam": "kept", "version": 1, "added": True}
            assert client.post("/v1/exams/kept/questions", json={"query": "zebra", "id": secret}).status_code == 404
            assert client.post("/v1/exams/..%2f/questions", json={"query": "zebra", "id": public}).status_code == 404
            assert client.post("/v1/exams/.kept/questions", json={"query": "zebra", "id": public}).status_code == 400
