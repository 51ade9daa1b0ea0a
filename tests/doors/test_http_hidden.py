"""What callers who may not read everything learn through the server does not depend on what they may not read; and it
names neither addresses nor folders of the server."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from cases import each
from exam_helpers import surefind
from helpers import WORDS, Home
from report_helpers import row, save_report
from surefind import Access
from surefind.base.redact import without_addresses
from surefind.base.types import SearchResult, TraceEntry
from surefind.doors.server import create_app
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.search.reader import Findings
from surefind.kb.adoption import prepare, write
from surefind.kb.answer.answering import Answer
from surefind.kb.queries import QueryLog
from surefind.lab.exam.keeping import keep
from surefind.lab.exam.store import ExamStore
from surefind.lab.study.scores import readable_passages
from test_http_access import Bank, serving
from test_report_quotes import PAIR, _job

ISOLATED = PAIR + '\n[access]\nisolation = "statistics"\n'
TIMES = {
    "created",
    "latency_ms",
    "ingest_s_per_doc",
    "environment",
    "id",
    "ms",
    "seconds",
    "p50",
    "calls",
    "memory_bytes",
}
"""What differs between any two runs."""


# ---------------------------------------------------------------- counts


@contextlib.contextmanager
def _bank(folder: Path, restricted: int) -> Iterator[Bank]:
    home = Home(folder, ISOLATED)
    asked = ["question,document"]
    for n in range(6):
        home.write(f"docs/animal{n}.md", f"# Title of animal{n}\n\nThe cutoff of animal{n} is {n} pm.\n")
        asked.append(f"when is the cutoff of animal{n}?,animal{n}.md")
    for n in range(restricted):
        text = "\n\n".join(f"## Part {part}\n\nThe pay of zebra{n} is {part}." for part in range(4))
        home.write(f"docs/zebra{n}.md", f"---\nacl: [hr]\n---\n# Zebra {n}\n\n{text}\n")
        asked.append(f"what is the pay of zebra{n}?,zebra{n}.md")
    home.write("asked.csv", "\n".join(asked) + "\n")
    home.sync("docs")
    ran = surefind("exam", "import", home.folder / "asked.csv", "--name", "staff", kb=home.folder)
    assert ran.code == 0, ran.err
    with serving(home) as found:
        yield found


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Returns the places in which two values differ, without times."""
    if isinstance(one, dict) and isinstance(other, dict):
        return [
            place
            for key in one.keys() | other.keys()
            if key not in TIMES
            for place in differences(one.get(key), other.get(key), f"{where}/{key}")
        ]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [place for at, pair in pairs for place in differences(*pair, f"{where}/{at}")]
    return [] if _timeless(one) == _timeless(other) else [where]


def _timeless(value: Any) -> Any:
    return re.sub(r"\d+(\.\d+)? ms", "… ms", value) if isinstance(value, str) else value


def test_a_report_is_the_same_however_many_documents_its_reader_may_not_read(tmp_path: Path) -> None:
    seen = []
    for restricted in (0, 3):
        with _bank(tmp_path / str(restricted), restricted) as bank:
            job = _job(bank, "ada", kind="bench", exam="staff")
            (listed,) = bank.ask("ada", "GET", "/v1/reports").json()["reports"]
            report = bank.ask("ada", "GET", f"/v1/reports/{listed['id']}").json()
            seen.append({"report": report, "job": bank.ask("ada", "GET", f"/v1/jobs/{job}").json()["result"]})
            whole = bank.ask("boss", "GET", f"/v1/reports/{listed['id']}").json()
            row = whole["rows"][0]
            assert row["chunks"] >= 6 + restricted and row["index_bytes"] and whole["exam"]["dropped"] == restricted
    assert differences(*seen) == []


def test_a_study_counts_the_passages_that_its_readers_may_read(bank: Bank) -> None:
    view = bank.kb.reader().view
    assert [readable_passages(view, one) for one in (Access.public(), Access.of("hr"), Access.owner())] == [1, 2, 2]


# ---------------------------------------------------------------- kept questions


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Bank]:
    home = Home(tmp_path, WORDS)
    home.write("docs/open.md", "# Open\n\nThe cutoff of wires is 3 pm.\n")
    home.write("docs/closed.md", "---\nacl: [hr]\n---\n# Closed\n\nThe cutoff of wires for hr is 9 pm.\n")
    home.sync("docs")
    with serving(home) as found:
        yield found


def _passage(bank: Bank, who: str, document: str) -> str:
    hits = bank.ask(who, "GET", "/v1/search?query=cutoff+of+wires").json()["hits"]
    return str({hit["document"]: hit["id"] for hit in hits}[document])


@pytest.mark.parametrize("hidden", [["closed.md"], ["closed.md", "open.md"], ["open.md", "closed.md"]])
def test_keeping_a_question_does_not_show_that_a_restricted_one_exists(bank: Bank, hidden: list[str]) -> None:
    def kept(exam: str) -> list[Any]:
        given = {"query": "when is the cutoff?", "id": _passage(bank, "ada", "open.md")}
        told = [bank.ask("ada", "POST", f"/v1/exams/{exam}/questions", json=given).json()["added"] for _ in range(2)]
        return [told, bank.ask("ada", "GET", f"/v1/exams/{exam}").json()["questions"]]

    for document in hidden:
        given = {"query": "When is the cutoff", "id": _passage(bank, "hr", document)}
        assert bank.ask("hr", "POST", "/v1/exams/kept/questions", json=given).status_code == 201
    assert kept("kept") == kept("empty") and len(kept("kept")[1]) == 1
    questions = ExamStore(bank.kb.data / "exams").load("kept").queries
    assert len({one.id for one in questions}) == len(questions) == 2


def test_whoever_may_read_both_passages_makes_one_question_of_them(bank: Bank) -> None:
    for document in ("open.md", "closed.md"):
        keep(bank.kb, "when is the cutoff?", _passage(bank, "boss", document), Access.owner())
    (question,) = ExamStore(bank.kb.data / "exams").load("kept").queries
    assert len(question.judgments) == 2


# ---------------------------------------------------------------- addresses

INSIDE = (
    "http://10.1.2.3:8000/v1",
    "model.internal:8443",
    "https://user:pw@host/x?key=1",
    "10.9.8.7",
    "/srv/models/a.onnx",
)


@pytest.mark.parametrize("who", ["ada", "writer", "admin"])
def test_addresses_and_folders_of_the_server_are_for_admins(
    bank: Bank, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Findings.result

    def result(self: Findings, *given: Any) -> SearchResult:
        found = plain(self, *given)
        failed = [
            TraceEntry("rerank", f"hosted(url={one})", 1, 0.1, f"fell back: {one} did not answer") for one in INSIDE
        ]
        return replace(found, trace=(*found.trace, *failed), pipeline=f"bm25 >> hosted(url={INSIDE[0]})")

    monkeypatch.setattr(Findings, "result", result)
    bank.ask("boss", "GET", "/v1/search?query=cutoff")  # its answer is not given to others
    told = [bank.ask(who, "GET", "/v1/search?query=cutoff").text, bank.ask(who, "GET", "/?query=cutoff").text]
    shown = [one for text in told for one in INSIDE if one in text]
    assert bool(shown) == (who == "admin")
    assert "did not answer" in told[0] and "The cutoff of wires is 3 pm." in told[0]


@pytest.mark.parametrize("stream", [False, True])
def test_the_note_of_an_answer_names_no_address(bank: Bank, stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Answer.to_dict
    monkeypatch.setattr(
        Answer, "to_dict", lambda self: plain(replace(self, note=f"{INSIDE[0]} failed", model=f"openai:{INSIDE[1]}"))
    )
    asked = {"query": "when is the cutoff of wires?", "stream": stream}
    assert INSIDE[0] not in (told := bank.ask("ada", "POST", "/v1/ask", json=asked).text) and INSIDE[1] not in told
    assert INSIDE[0] in bank.ask("admin", "POST", "/v1/ask", json=asked).text


@each("text", [*INSIDE, "HTTPS://A.B/c", "[::1]:8000", "localhost:11434", "ftp://x", "file:///etc/x"])
def test_no_spelling_of_an_address_is_left(text: str) -> None:
    for before, after in (("", ""), ("at ", " failed"), ("(url='", "')"), ("url=", ", k=3")):
        assert text not in without_addresses(f"{before}{text}{after}")


@each("text", ["reranked 12 of 20", "bm25(k1=1.2, b=0.75)", "dense:2 under 0.5", "and/or", "a 3/4 b"])
def test_other_words_stay(text: str) -> None:
    assert without_addresses(text) == text


# ---------------------------------------------------------------- folders


@pytest.mark.parametrize("how", ["nothing", "edited", "damaged", "unwritable"])
def test_undo_names_no_folder_of_the_server(bank: Bank, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = bank.home.folder
    if how != "nothing":
        write(folder, prepare(folder, "other", Pipeline.parse("bm25(k1=2)")))
    if how == "edited":
        (folder / "surefind.toml").write_text((folder / "surefind.toml").read_text() + "\n# by hand\n")
    if how == "damaged":
        (folder / ".surefind/adopted.json").write_bytes(b"{")
    if how == "unwritable":
        from surefind.base.errors import ConfigError

        def fails(path: Path) -> None:
            raise ConfigError(f"{path} cannot be written.")

        monkeypatch.setattr("surefind.kb.adoption.check_writable", fails)
    for headers in ({}, {"Accept": "text/html"}):
        answer = bank.ask("ada", "POST", "/reports/undo", data={"mark": "x"}, headers=headers)
        assert answer.status_code == 400 and str(folder) not in answer.text and "tmp" not in answer.text
        assert "." in answer.text


# ---------------------------------------------------------------- queries of other sites


@each(
    ("headers", "is_kept"),
    [
        ({}, True),
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "none"}, True),
        ({"Referer": "http://localhost/"}, True),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Origin": "https://evil.example"}, False),
        ({"Origin": "null"}, False),
        ({"Referer": "https://evil.example/page"}, False),
    ],
)
@each("path", ["/v1/search?query=cutoff", "/?query=cutoff"])
def test_a_query_that_another_site_made_is_not_kept(
    tmp_path: Path, headers: dict[str, str], is_kept: bool, path: str
) -> None:
    home = Home(tmp_path, WORDS + "\n[exam]\nkeep_queries = true\n")
    home.write("docs/open.md", "# Open\n\nThe cutoff of wires is 3 pm.\n")
    home.sync("docs")
    with home.open() as kb, TestClient(create_app(kb), "http://localhost", client=("127.0.0.1", 50000)) as client:
        assert client.get(path, headers=headers).status_code == 200
        assert bool(QueryLog(kb.data, 90).all()) == is_kept


@each("path", ["/v1/search?query=cutoff", "/?query=cutoff"])
def test_a_query_whose_result_is_known_is_kept_as_well(tmp_path: Path, path: str) -> None:
    home = Home(tmp_path, WORDS + "\n[exam]\nkeep_queries = true\n")
    home.write("docs/open.md", "# Open\n\nThe cutoff of wires is 3 pm.\n")
    home.sync("docs")
    with home.open() as kb, TestClient(create_app(kb), "http://localhost", client=("127.0.0.1", 50000)) as client:
        first, second = (client.get(path) for _ in range(2))
        assert "3 pm" in first.text and "3 pm" in second.text
        assert 'cache_total{result="hit"} 1.0' in client.get("/metrics").text
        assert [logged.query for logged in kb.queries.all()] == ["cutoff", "cutoff"]


# ---------------------------------------------------------------- damaged reports


def _damaged(home: Home) -> None:
    save_report(home.folder, "whole", row("BM25", "bm25"))
    for path in ("reports/first/report.json", "studies/s/study.json"):
        file = home.folder / ".surefind" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b'{"checksum": "0", "rows": []}')


def test_damaged_reports_are_listed_as_damaged(bank: Bank) -> None:
    _damaged(bank.home)
    listed = {one["id"]: one for one in bank.ask("boss", "GET", "/v1/reports").json()["reports"]}
    assert "damaged" not in listed["whole"] and "first/report.json is damaged" in listed["first"]["damaged"]
    page = bank.ask("boss", "GET", "/reports").text
    assert "reports/first/report.json is damaged" in page and "studies/s/study.json is damaged" in page
    assert str(bank.home.folder) not in page + json.dumps(listed)
    for path in ("/v1/reports/first", "/reports/benchmark/first", "/reports/study/s"):
        answer = bank.ask("boss", "GET", path)
        assert answer.status_code == 400 and "is damaged" in answer.text and str(bank.home.folder) not in answer.text


def test_damaged_reports_show_only_to_the_owner(bank: Bank) -> None:
    """Nobody knows any more for which groups they were made."""
    _damaged(bank.home)
    for path in ("/v1/reports", "/reports"):
        assert "damaged" not in bank.ask("ada", "GET", path).text
    assert bank.ask("ada", "GET", "/v1/reports/first").status_code == 404


def test_the_command_line_names_damaged_reports(bank: Bank) -> None:
    _damaged(bank.home)
    bank.home.write("asked.csv", "question,document\nwhen?,open.md\n")
    surefind("exam", "import", bank.home.folder / "asked.csv", "--name", "mine", kb=bank.home.folder)
    ran = surefind("exam", "delete", "mine", "--yes", kb=bank.home.folder)
    assert ran.code == 0 and "first/report.json is damaged" in ran.err, ran
