"""`surefind exam grow`: useful questions first, passages of all configurations, answers that no crash loses."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exam_helpers import copy_few, surefind
from forking import Forked
from helpers import Home
from surefind import Access, KnowledgeBase
from surefind.errors import ExamError, LockedError, UsageError
from surefind.exam.asking import LEADING, Asking, leading
from surefind.exam.candidates import Candidate
from surefind.exam.growing import GrowingSession, PersonAnswer, growing
from surefind.exam.library import Library
from surefind.exam.store import ExamStore
from surefind.kb.sample import sample_vectors
from surefind.types import Query

pytestmark = pytest.mark.usefixtures("remembered_models")

QUESTIONS = ["when is the wire cutoff", "ctr deadline on a holiday", "courtesy pay limit", "who approves sick leave"]
PAIR = ("-p", "bm25(k1=1.5, b=0.75)", "-p", "tfidf()")
RESTRICTED = "---\nacl: [board]\n---\n# Sale\n\nThe wire cutoff moves to the buyer after the sale of the branch.\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = Home(tmp_path_factory.mktemp("grow"))
    copy_few(home.docs)
    home.write("docs/sale.md", RESTRICTED)
    home.sync("docs")
    with home.open() as kb:
        kb.build("tfidf()")
    return home.folder


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    """A knowledge base with four candidates for the exam `real`."""
    made = tmp_path / "kb"
    shutil.copytree(built, made)
    log = tmp_path / "log.txt"
    log.write_text("\n".join(QUESTIONS), encoding="utf-8")
    assert surefind("exam", "collect", "real", log, kb=made).code == 0
    return made


def store(folder: Path) -> ExamStore:
    return ExamStore(folder / ".surefind" / "exams")


def asked(folder: Path, *options: str) -> dict[str, Any]:
    ran = surefind("exam", "grow", "real", "--json", *PAIR, *options, kb=folder)
    assert ran.code == 0, ran.err
    return ran.json


def write_answers(folder: Path, *rows: object) -> Path:
    path = folder / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


# ---------------------------------------------------------------- what is asked


def test_json_prints_what_would_be_asked(folder: Path) -> None:
    found = asked(folder)
    assert sorted(q["query"] for q in found["questions"]) == sorted(QUESTIONS)
    values = [q["disagreement"] for q in found["questions"]]
    assert values == sorted(values, reverse=True) and all(0 <= value <= 1 for value in values) and values[0] > 0
    for question in found["questions"]:
        assert 0 < len(question["passages"]) <= 8
        spans = [(p["document"], p["start"], p["end"]) for p in question["passages"]]
        assert len(set(spans)) == len(spans)
    assert store(folder).names() == []


def test_random_order_depends_on_the_seed_alone(folder: Path) -> None:
    orders = [
        [q["query"] for q in asked(folder, "--random", "--seed", seed)["questions"]] for seed in ("1", "1", "2", "3")
    ]
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in orders}) > 1


def test_number_and_size_are_limits(folder: Path) -> None:
    found = asked(folder, "-n", "2", "--hits", "3")
    assert [len(q["passages"]) for q in found["questions"]] == [3, 3] and found["candidates"] == 4


def test_restricted_documents_are_shown_to_their_group_only(folder: Path) -> None:
    def documents(*options: str) -> set[str]:
        return {p["document"] for q in asked(folder, *options)["questions"] for p in q["passages"]}

    assert "sale.md" not in documents()
    assert "sale.md" in documents("--as", "board")


def test_the_pool_is_fair_and_shuffled(folder: Path) -> None:
    with KnowledgeBase.open(folder) as kb:
        asking = Asking(kb, PAIR[1::2], Access.public(), None)
        for text in QUESTIONS:
            spans = {(hit.document, hit.start, hit.end) for hit in asking.pool(text, 6)}
            for pipeline in asking.pipelines:
                hits = kb.search(text, Access.public(), 3, pipeline).hits
                firsts = {(hit.document, *(hit.matched or (hit.start, hit.end))) for hit in hits}
                assert firsts <= spans  # the first three of each of the two
        orders = {tuple(hit.id for hit in asking.pool("wire cutoff", 6, seed)) for seed in range(5)}
        assert len(orders) > 1


def test_configurations_that_cannot_be_compared_are_refused(folder: Path) -> None:
    with KnowledgeBase.open(folder) as kb:
        with pytest.raises(UsageError, match="cannot disagree with itself"):
            leading(kb, ["words", "bm25(k1=1.5)"])
        with pytest.raises(UsageError, match="asks a language model"):
            leading(kb, ["words", "hyde(retriever=bm25)"])


def test_each_compared_configuration_ranks_as_its_own_run_does(folder: Path) -> None:
    """Retrievers are shared between the configurations; the rankings must be those of separate runs."""
    with KnowledgeBase.open(folder) as kb:
        kb.services.keep_vectors(sample_vectors())
        asking = Asking(kb, (), Access.public(), None)
        queries = [Query(text) for text in QUESTIONS]
        shared = asking._rankings(queries)
        assert len(shared) > len(asking.pipelines) == len(LEADING)
        for pipeline, ranking in zip(asking._compared, shared, strict=True):
            alone = pipeline.run(queries, 10, asking.reader.view, kb.services, Access.public()).rankings
            for row in range(len(queries)):
                assert ranking.row(row)[0][:10].tolist() == alone.row(row)[0][:10].tolist(), pipeline


def test_an_answer_records_how_the_question_was_chosen(folder: Path) -> None:
    question = asked(folder)["questions"][0]
    assert 0 < question["typical"] <= question["disagreement"]
    row = {"query": question["query"], "relevant": [question["passages"][0]]}
    row |= {"disagreement": question["disagreement"], "typical": question["typical"]}
    assert surefind("exam", "grow", "real", "--answers", write_answers(folder, row), kb=folder).code == 0
    metadata = store(folder).load("real").queries[0].metadata
    assert metadata == {key: pytest.approx(row[key]) for key in ("disagreement", "typical")} | {
        "chosen": "disagreement"
    }


def test_without_pipelines_those_of_the_settings_and_the_leading_ones_are_compared(home: Home) -> None:
    home.write("docs/a.md", "# Wire\n\nThe wire cutoff is five o'clock.\n")
    home.sync("docs")
    with home.open() as kb:
        made = [str(pipeline) for pipeline in leading(kb)]
        assert len(made) == len(LEADING)  # `words` of the settings is bm25 itself
        asks = Asking(kb, (), Access.public(), None).by_disagreement([Candidate("wire cutoff")])
    assert [ask.value for ask in asks] == [0.0]


# ---------------------------------------------------------------- answers from a file


def test_answers_become_judgments(folder: Path) -> None:
    first = asked(folder)["questions"][0]
    gold = first["passages"][:2]
    path = write_answers(
        folder,
        {"query": first["query"], "relevant": [{key: p[key] for key in ("document", "start", "end")} for p in gold]},
        {"query": QUESTIONS[3] + "?", "relevant": []}
        if first["query"] != QUESTIONS[3]
        else {"query": "x y", "relevant": []},
    )
    ran = surefind("exam", "grow", "real", "--answers", path, "--json", kb=folder)
    assert ran.json == {
        "name": "real", "version": 1, "questions": 1, "answered": 1, "none": 1, "rejected": 0, "left": 2,
    }  # fmt: skip
    exam = store(folder).load("real")
    (query,) = exam.queries
    assert (query.text, query.family, exam.origin) == (first["query"], "asked", "grow real")
    assert [(j.document, j.start, j.end) for j in query.judgments] == [
        (p["document"], p["start"], p["end"]) for p in gold
    ]
    assert all(j.quote == p["text"][:80] for j, p in zip(query.judgments, gold, strict=True))
    assert first["query"] not in [q["query"] for q in asked(folder)["questions"]]


def test_a_session_adds_one_version(folder: Path) -> None:
    document = "sops/sop-104-ctr-filing.md"
    for number, text in enumerate(QUESTIONS[:2], 1):
        path = write_answers(
            folder, {"query": text, "relevant": [{"document": document, "start": 0, "end": 50 * number}]}
        )
        assert surefind("exam", "grow", "real", "--answers", path, kb=folder).code == 0
    assert [(exam.version, len(exam.queries)) for exam in store(folder).all()] == [(1, 1), (2, 2)]


def test_a_new_answer_replaces_the_old_one(folder: Path) -> None:
    for end in (10, 20):
        gold = {"document": "sop-104-ctr-filing.md", "start": 0, "end": end}
        surefind(
            "exam",
            "grow",
            "real",
            "--answers",
            write_answers(folder, {"query": QUESTIONS[0], "relevant": [gold]}),
            kb=folder,
        )
    (query,) = store(folder).load("real").queries
    assert [judgment.end for judgment in query.judgments] == [20]


def test_bad_answers_are_named_and_none_is_used(folder: Path) -> None:
    path = write_answers(
        folder,
        {"query": QUESTIONS[0], "relevant": [{"document": "sop-104-ctr-filing.md", "start": 0, "end": 9}]},
        {"query": QUESTIONS[1]},
        {"query": QUESTIONS[1], "relevant": [{"document": "nowhere.md"}]},
        {"query": " ", "relevant": []},
        ["no", "object"],
    )
    ran = surefind("exam", "grow", "real", "--answers", path, kb=folder)
    assert ran.code == 2 and store(folder).names() == []
    assert all(f"line {number}: " in ran.err for number in (2, 3, 4, 5)) and "line 1" not in ran.err


def test_an_answer_may_not_point_at_a_restricted_document(folder: Path) -> None:
    path = write_answers(folder, {"query": "a b", "relevant": [{"document": "sale.md", "start": 0, "end": 4}]})
    assert "there is no document 'sale.md'" in surefind("exam", "grow", "real", "--answers", path, kb=folder).err
    assert surefind("exam", "grow", "real", "--answers", path, "--as", "board", kb=folder).code == 0


def test_the_exam_can_be_measured(folder: Path) -> None:
    gold = {"document": "sops/sop-104-ctr-filing.md"}
    surefind(
        "exam",
        "grow",
        "real",
        "--answers",
        write_answers(folder, {"query": QUESTIONS[1], "relevant": [gold]}),
        kb=folder,
    )
    ran = surefind("bench", "--exam", "real", "-p", "words", kb=folder)
    assert ran.code == 0, ran.err
    assert "words" in ran.out


# ---------------------------------------------------------------- the session


@pytest.fixture
def session(folder: Path) -> Iterator[GrowingSession]:
    with KnowledgeBase.open(folder) as kb:
        library = Library(kb.documents(Access.public()))
        with growing(kb.data, "real", library) as made:
            yield made


def gold(session: GrowingSession, end: int = 20) -> tuple[Any, ...]:
    return (session.judge("sop-104-ctr-filing.md", 0, end),)


def test_every_answer_is_saved_at_once(folder: Path, session: GrowingSession) -> None:
    for count, text in enumerate(QUESTIONS[:3], 1):
        session.answer(PersonAnswer(text, gold(session)))
        assert [(e.version, len(e.queries)) for e in store(folder).all()] == [(1, count)]


def test_undo_takes_back_marks_and_verdicts(folder: Path, session: GrowingSession) -> None:
    session.answer(PersonAnswer(QUESTIONS[0], gold(session)))
    session.answer(PersonAnswer(QUESTIONS[1], verdict="rejected"))
    session.answer(PersonAnswer(QUESTIONS[2], gold(session)))
    assert len(session.open_candidates()) == 1
    assert [answer.query for answer in (session.undo(), session.undo()) if answer] == [QUESTIONS[2], QUESTIONS[1]]
    assert len(session.open_candidates()) == 3
    assert [query.text for query in store(folder).load("real").queries] == [QUESTIONS[0]]
    assert session.undo() and session.undo() is None


def test_a_session_whose_answers_were_all_taken_back_leaves_no_version(folder: Path) -> None:
    with KnowledgeBase.open(folder) as kb:
        library = Library(kb.documents(Access.public()))
        with growing(kb.data, "real", library) as made:
            made.answer(PersonAnswer(QUESTIONS[0], gold(made)))
            made.undo()
    assert store(folder).names() == [] and len(store(folder).candidates("real").all()) == 4


def test_two_sessions_on_one_exam_are_refused(folder: Path, session: GrowingSession) -> None:
    with KnowledgeBase.open(folder) as kb, pytest.raises(LockedError, match="is growing the exam 'real'"):
        with growing(kb.data, "real", Library([])):
            pass
        raise ExamError("unreachable")


# ---------------------------------------------------------------- at a terminal


class Terminal:
    """`surefind exam grow` at a terminal of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.screen, theirs = pty.openpty()
        words = ["exam", "grow", "real", *PAIR, *options, "--kb", str(folder)]
        self.process = Forked(words, Path(os.ttyname(theirs)), {**os.environ, "TERM": "dumb"})
        select.select([self.screen], [], [], 60)  # it has opened the terminal when it writes
        os.close(theirs)

    def until(self, mark: str) -> str:
        """The screen's text up to `mark`."""
        text, last = "", time.monotonic() + 60
        while mark not in text:
            ready, _, _ = select.select([self.screen], [], [], max(0, last - time.monotonic()))
            assert ready, f"{mark!r} did not come: {text}"
            try:
                text += os.read(self.screen, 65536).decode("utf-8", "replace")
            except OSError:
                break
        assert mark in text, text
        return text

    def type(self, line: str) -> None:
        os.write(self.screen, f"{line}\n".encode())

    def kill(self, sign: signal.Signals) -> None:
        """Sends a signal until it works: one that comes just before Python waits for a line ends no wait."""
        while self.process.poll() is None:
            self.process.send_signal(sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5)

    def close(self) -> int:
        try:
            return self.process.wait(60)
        finally:
            os.close(self.screen)


ASK = "q = stop: "


def test_keys_at_a_terminal(folder: Path) -> None:
    order = [q["query"] for q in asked(folder)["questions"]]
    terminal = Terminal(folder)
    first = terminal.until(ASK)
    assert order[0] in first and "1 of 4" in first and not re.search(r"bm25|tfidf", first.partition("1 of 4")[2])
    terminal.type("99")
    assert "Cannot read '99'. Write numbers from 1 to 8" in terminal.until(ASK)
    terminal.type("1, 3")
    assert order[1] in terminal.until(ASK)
    terminal.type("n")
    assert order[2] in terminal.until(ASK)
    terminal.type("u")
    assert order[1] in terminal.until(ASK)
    terminal.type("r")
    terminal.until(ASK)
    terminal.type("s")
    assert order[3] in terminal.until(ASK)
    terminal.type("2")
    assert "2 answered, 1 rejected; candidates left: 1." in terminal.until("bench --exam real")
    assert terminal.close() == 0
    marked = {query.text: len(query.judgments) for query in store(folder).load("real").queries}
    assert marked == {order[0]: 2, order[3]: 1}
    assert {query.metadata["chosen"] for query in store(folder).load("real").queries} == {"disagreement"}
    assert {c.text: c.verdict for c in store(folder).candidates("real").all() if c.verdict} == {order[1]: "rejected"}
    left = asked(folder)
    assert [q["query"] for q in left["questions"]] == [order[2]]


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_session_loses_no_answer(folder: Path, end: signal.Signals) -> None:
    terminal = Terminal(folder)
    terminal.until(ASK)
    terminal.type("1")
    terminal.until(ASK)
    terminal.kill(end)
    assert terminal.close() in (130, -signal.SIGKILL)
    assert len(store(folder).load("real").queries) == 1
    again = Terminal(folder, "-n", "1")
    again.until(ASK)
    again.type("q")
    again.until("0 answered")
    assert again.close() == 0


# ---------------------------------------------------------------- refusals


def test_a_script_without_answers_is_refused(folder: Path) -> None:
    command = [sys.executable, "-m", "surefind", "exam", "grow", "real", "--kb", str(folder)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "give the answers with --answers FILE" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nobody", "--json"), "There are no questions to ask. Collect some"),
        (("../x", "--json"), "cannot be called"),
        (("real", "--json", "-n", "0"), "must be at least 1"),
        (("real", "--answers", "missing.jsonl"), "cannot be read"),
    ],
)
def test_what_cannot_be_done_is_said(folder: Path, words: tuple[str, ...], says: str) -> None:
    ran = surefind("exam", "grow", *words, kb=folder)
    assert ran.code == 2 and says in ran.err
