"""Who may read what through the server: drafts, earlier generations and access rules that changed."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from exam_helpers import surefind
from helpers import WORDS, Home
from surefind.base.errors import StoreError
from surefind.doors.auth.keys import Keys
from surefind.doors.http.service import Service
from surefind.doors.server import create_app
from surefind.engine.search import reader
from surefind.engine.search.reader import Findings, Searcher
from surefind.kb import KnowledgeBase
from surefind.lab.exam.store import ExamStore

PEOPLE: dict[str, tuple[list[str], list[str]]] = {
    "ada": (["read", "write", "review"], []),
    "bob": (["read", "write", "review"], []),
    "writer": (["read", "write"], []),
    "hr": (["read", "write", "review"], ["hr"]),
    "admin": (["admin"], []),
    "boss": (["admin"], ["*"]),
}
"""Callers by name: their scopes and groups."""
PAY = "---\nacl: [hr]\n---\n# Pay\n\nThe zebra is 9,000.\n"


class Bank:
    """A knowledge base with a public and a restricted document, and a server of it in this process."""

    def __init__(
        self, home: Home, kb: KnowledgeBase, client: TestClient, keys: dict[str, str], service: Service
    ) -> None:
        self.home, self.kb, self.client, self._keys, self.service = home, kb, client, keys, service

    def ask(self, name: str, method: str, path: str, **more: Any) -> Any:
        """Returns the answer to a request of this caller."""
        headers = {"Authorization": f"Bearer {self._keys[name]}", **more.pop("headers", {})}
        return self.client.request(method, path, headers=headers, follow_redirects=False, **more)

    def upload(self, name: str, document: str, text: str) -> int:
        made = self.ask(name, "POST", f"/v1/documents?name=new.md&document={document}", content=text.encode())
        assert made.status_code == 201, made.text
        return int(made.json()["number"])

    def save(self, name: str, number: int, edited: int, text: str) -> None:
        saved = self.ask(name, "PUT", f"/v1/drafts/{number}", content=text.encode(), headers={"If-Match": str(edited)})
        assert saved.status_code == 200, saved.text

    def publish(self, number: int) -> None:
        with self.home.open() as kb:
            kb.drafts.publish(number)
        self.kb.refresh()

    def sync(self) -> None:
        self.home.sync("docs")
        self.kb.refresh()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.write("docs/wires.md", "# Wires\n\nThe cutoff of wires is 3 pm.\n")
    home.write("docs/hr/pay.md", PAY)
    home.sync("docs")
    return home


@pytest.fixture
def bank(home: Home) -> Iterator[Bank]:
    with serving(home) as found:
        yield found


@contextlib.contextmanager
def serving(home: Home) -> Iterator[Bank]:
    with home.open() as kb:
        keys = {name: Keys(kb.data).create(name, *given)[1] for name, given in PEOPLE.items()}
        app: Any = create_app(kb)
        with TestClient(app) as client:
            yield Bank(home, kb, client, keys, app._app.state.service)


# ---------------------------------------------------------------- drafts


def test_errors_do_not_list_the_drafts_of_others(bank: Bank) -> None:
    hidden = bank.upload("hr", "hr/layoffs.md", "---\nacl: [hr]\n---\nThe plan.\n")
    gone = bank.upload("writer", "idea.md", "An idea.\n")
    assert bank.ask("writer", "POST", f"/v1/drafts/{gone}/discard").status_code == 200
    for what in ("submit", "discard", "rebase"):
        answer = bank.ask("writer", "POST", f"/v1/drafts/{gone}/{what}")
        assert answer.status_code == 400 and "There is no open draft" in answer.text
        assert "layoffs" not in answer.text and str(hidden) not in answer.json()["detail"]


def test_restricted_document_is_replaced_only_by_reviewers_who_may_read_it(bank: Bank) -> None:
    number = bank.upload("writer", "hr/pay.md", "---\nacl: [public]\n---\nOverwritten.\n")
    assert bank.ask("writer", "POST", f"/v1/drafts/{number}/submit").status_code == 200
    assert number not in [one["number"] for one in bank.ask("ada", "GET", "/v1/drafts").json()["drafts"]]
    for what in ("approve", "publish", "return"):
        answer = bank.ask("ada", "POST", f"/v1/drafts/{number}/{what}", json={"revision": 1})
        assert answer.status_code == 404, what
    approved = bank.ask("hr", "POST", f"/v1/drafts/{number}/approve", json={"revision": 1})
    assert approved.json()["state"] == "approved"


def test_reviewer_does_not_publish_their_own_draft_of_a_document_that_they_may_not_read(bank: Bank) -> None:
    number = bank.upload("ada", "hr/pay.md", "---\nacl: [public]\n---\nOverwritten.\n")
    bank.ask("ada", "POST", f"/v1/drafts/{number}/submit")
    assert bank.ask("hr", "POST", f"/v1/drafts/{number}/approve", json={"revision": 1}).status_code == 200
    assert bank.ask("ada", "POST", f"/v1/drafts/{number}/publish").status_code == 403


def test_revision_is_shown_by_its_own_access_list(bank: Bank) -> None:
    number = bank.upload("hr", "new.md", "---\nacl: [hr]\n---\nThe zebra is 1.\n")
    said = {"revision": 1, "line": 1, "text": "The zebra is wrong."}
    assert bank.ask("hr", "POST", f"/v1/drafts/{number}/comments", json=said).status_code == 201
    bank.save("hr", number, 1, "---\nacl: [public]\n---\nNothing.\n")
    assert bank.ask("ada", "GET", f"/v1/drafts/{number}").json()["comments"] == []
    assert "zebra" not in bank.ask("ada", "GET", f"/drafts/{number}").text
    for path in ("/v1/drafts/{}?revision=1", "/drafts/{}?revision=1", "/drafts/{}?revision=2&since=1"):
        assert bank.ask("ada", "GET", path.format(number)).status_code == 404, path
        assert "zebra" in bank.ask("hr", "GET", path.format(number)).text, path
    assert bank.ask("ada", "POST", f"/v1/drafts/{number}/comments", json=said).status_code == 404
    assert bank.ask("ada", "GET", f"/v1/drafts/{number}?revision=2").status_code == 200
    for path in ("/v1/drafts/{}/comments/1/resolve", "/drafts/{}/comments/1/resolve"):
        answer = bank.ask("ada", "POST", path.format(number))
        assert answer.status_code == 404 and "zebra" not in answer.text, path
    assert bank.ask("hr", "POST", f"/v1/drafts/{number}/comments/1/resolve").json()["resolved_by"] == "hr"


def test_author_does_not_learn_what_their_document_said_before_they_could_read_it(bank: Bank) -> None:
    bank.home.write("docs/hr/pay.md", "---\nacl: [hr]\nowner: zebra\n---\n# Pay\n")
    bank.sync()
    number = bank.kb.drafts.add_bytes("proposal.md", b"A proposal.", "hr/pay.md", "writer", keep_metadata=True).number
    bank.home.write("docs/hr/pay.md", "# Pay\n\nEverybody may read this.\n")
    bank.sync()
    answer = bank.ask("writer", "GET", f"/v1/drafts/{number}")
    assert "Everybody may read this" in answer.text and "zebra" not in answer.text
    assert "zebra" not in bank.ask("writer", "GET", f"/drafts/{number}").text
    assert "zebra" in bank.ask("hr", "GET", f"/v1/drafts/{number}").text


def test_author_does_not_see_a_later_revision_that_is_restricted(bank: Bank) -> None:
    number = bank.upload("writer", "new.md", "An idea.\n")
    bank.save("hr", number, 1, "---\nacl: [hr]\n---\n# The zebra\n\nIt is 1.\n")
    for path in ("/v1/drafts", "/drafts", "/v1/drafts/{}", "/drafts/{}", "/drafts/{}/edit", "/drafts/{}/chunks"):
        assert "zebra" not in bank.ask("writer", "GET", path.format(number)).text, path
    assert bank.ask("writer", "GET", f"/v1/drafts/{number}").status_code == 404


def test_draft_is_hidden_from_who_may_not_read_its_document_any_more(bank: Bank) -> None:
    others, own = bank.upload("bob", "wires.md", "The okapi is 4 pm.\n"), bank.upload("ada", "wires.md", "Mine.\n")
    assert "okapi" in bank.ask("ada", "GET", f"/v1/drafts/{others}").text
    bank.home.write("docs/wires.md", "---\nacl: [hr]\n---\n# Wires\n\nThe zebra of wires.\n")
    bank.sync()
    for path in ("/v1/drafts/{}", "/drafts/{}", "/v1/drafts/{}/preview"):
        assert bank.ask("ada", "GET", path.format(others)).status_code == 404, path
    assert bank.ask("ada", "GET", f"/v1/drafts/{own}").json()["text"] == "Mine.\n", "authors see what they wrote"
    page = bank.ask("ada", "GET", f"/drafts/{own}").text
    assert "Mine." in page and "zebra" not in page and "newer version" not in page
    assert bank.ask("ada", "POST", f"/v1/drafts/{own}/publish").status_code == 403
    assert "newer version" in bank.ask("hr", "GET", f"/drafts/{own}").text


# ---------------------------------------------------------------- earlier generations


def test_withdrawn_text_is_not_read_from_an_earlier_generation(bank: Bank) -> None:
    passage = bank.ask("ada", "GET", "/v1/search?query=cutoff").json()["hits"][0]["id"]
    bank.home.write("docs/wires.md", "---\nacl: [hr]\n---\n# Wires\n\nThe cutoff of wires is 5 pm.\n")
    bank.sync()
    paths = ("/v1/documents?generation=1", "/v1/documents/wires.md?generation=1",
             "/v1/search?query=cutoff&generation=1", f"/v1/passages/{passage}?generation=1")  # fmt: skip
    for path in paths:
        answer = bank.ask("ada", "GET", path)
        assert answer.status_code == 404 and "3 pm" not in answer.text, path
        assert bank.ask("ada", "GET", path.replace("generation=1", "generation=77")).status_code == 404, path
        assert "wires.md" in bank.ask("hr", "GET", path).text, path


def test_list_is_continued_on_an_earlier_generation_if_nothing_was_withdrawn(bank: Bank) -> None:
    bank.home.write("docs/other.md", "# Other\n\nAnother cutoff.\n")
    bank.home.write("docs/wires.md", "# Wires\n\nThe cutoff of wires is 5 pm.\n")
    bank.sync()
    assert "3 pm" in bank.ask("ada", "GET", "/v1/search?query=cutoff&generation=1").text
    (bank.home.folder / "docs/other.md").unlink()
    bank.sync()
    assert bank.ask("ada", "GET", "/v1/search?query=cutoff&generation=2").status_code == 404, "it was deleted"
    assert "3 pm" in bank.ask("ada", "GET", "/v1/search?query=cutoff&generation=1").text


# ---------------------------------------------------------------- access rules that change

RULE = '\n[[access]]\npath = "wires.md"\ngroups = ["hr"]\n'


def _restrict(bank: Bank) -> None:
    """What an admin does who restricts a document while requests run."""
    bank.home.configure(WORDS + RULE)
    assert bank.service.reload()


def test_answer_that_was_computed_under_earlier_rules_is_not_given_again(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, times = Searcher.find, []

    def slow(self: Searcher, *given: Any) -> Findings:
        found = real(self, *given)
        if given[0] == "cutoff" and not times:  # a new server searches by itself, too
            times.append(1)
            _restrict(bank)
        return found

    monkeypatch.setattr(Searcher, "find", slow)
    assert "3 pm" in bank.ask("ada", "GET", "/v1/search?query=cutoff").text, "it began before"
    assert bank.ask("ada", "GET", "/v1/search?query=cutoff").json()["hits"] == []
    assert bank.ask("ada", "GET", "/v1/documents/wires.md").status_code == 404


def test_reader_with_earlier_rules_is_not_kept_for_its_generation(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    real, times = bank.service._remember, []

    def late(*given: Any) -> None:
        if not times:
            times.append(1)
            _restrict(bank)
        real(*given)

    monkeypatch.setattr(bank.service, "_remember", late)
    bank.ask("ada", "GET", "/v1/search?query=cutoff")
    bank.home.write("docs/other.md", "# Other\n")
    bank.sync()
    assert bank.ask("ada", "GET", "/v1/search?query=cutoff&generation=1").json()["hits"] == []


def _sent(bank: Bank, action: str) -> dict[str, str]:
    """The hidden fields of a form on the page of settings, which a browser sends."""
    form = re.search(rf'<form[^>]*action="{action}".*?</form>', bank.ask("boss", "GET", "/settings").text, re.DOTALL)
    assert form, action
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form[0]))


def test_rules_apply_as_soon_as_they_are_saved(bank: Bank) -> None:
    sent = {**_sent(bank, "/settings"), "text": WORDS + RULE}
    assert bank.ask("boss", "POST", "/settings", data=sent).status_code == 303
    assert bank.ask("ada", "GET", "/v1/documents/wires.md").status_code == 404
    sent = _sent(bank, "/settings/undo")
    assert bank.ask("boss", "POST", "/settings/undo", data=sent).status_code == 303
    assert bank.ask("ada", "GET", "/v1/documents/wires.md").status_code == 200


# ---------------------------------------------------------------- a new generation


def test_first_request_long_after_a_sync_sees_the_new_generation(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "BEHIND_SECONDS", 0.2)
    assert "3 pm" in bank.ask("ada", "GET", "/v1/documents/wires.md").text
    bank.home.write("docs/wires.md", "---\nacl: [hr]\n---\n# Wires\n\nThe cutoff of wires is 5 pm.\n")
    bank.home.sync("docs")
    time.sleep(0.3)
    assert bank.ask("ada", "GET", "/v1/documents/wires.md").status_code == 404


def test_request_that_sees_another_open_the_new_generation_does_not_use_the_old_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "BEHIND_SECONDS", 0.1)
    newest = [1]

    def number() -> int:
        if threading.current_thread() is threading.main_thread() and newest[0] == 2:
            other = threading.Thread(target=one.refresh)  # meanwhile, another request opens it
            other.start()
            other.join(60)
        return newest[0]

    one = reader.Current(number, lambda before: SimpleNamespace(generation=newest[0], damaged=False))  # type: ignore
    one.get()
    newest[0] = 2
    time.sleep(0.2)
    assert one.get().generation == 2
    one.close()


def test_request_waits_for_a_generation_that_opens_slowly_only_when_it_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    newest, opened, clock, may_open = [1], list[int](), [100.0], threading.Event()
    monkeypatch.setattr(reader, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def slowly(before: Any) -> Any:
        assert before is None or may_open.wait(60)
        opened.append(newest[0])
        return SimpleNamespace(generation=newest[0], damaged=False)

    one = reader.Current(lambda: newest[0], slowly)
    assert one.get().generation == 1
    newest[0] = 2
    assert [one.get().generation for _ in range(3)] == [1, 1, 1]
    clock[0] += reader.BEHIND_SECONDS - 0.1
    assert (one.get().generation, opened) == (1, [1]), "meanwhile, requests are answered from the one before"
    clock[0] += 0.2
    threading.Timer(0.2, may_open.set).start()
    assert (one.get().generation, opened) == (2, [1, 2])
    one.close()


def test_generation_that_cannot_be_opened_stops_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "BEHIND_SECONDS", 0.0)
    newest = [1]

    def fails(before: Any) -> Any:
        if before:
            raise StoreError("It is damaged.")
        return SimpleNamespace(generation=1, damaged=False)

    one = reader.Current(lambda: newest[0], fails)
    one.get()
    newest[0] = 2
    assert (one.get().generation, one.problem) == (1, "It is damaged.")
    one.close()


# ---------------------------------------------------------------- figures of exams


def test_preview_counts_only_questions_that_the_caller_may_see(bank: Bank) -> None:
    bank.home.write(
        "asked.csv", "question,document\nwhat is the zebra of pay?,hr/pay.md\nwhen is the cutoff of wires?,wires.md\n"
    )
    ran = surefind("exam", "import", bank.home.folder / "asked.csv", "--name", "staff", kb=bank.home.folder)
    assert ran.code == 0, ran.err
    number = bank.upload("ada", "wires.md", "Nothing is said any more.\n")
    for name, asked, after in (("ada", 1, 0.0), ("boss", 2, 0.5), ("ada", 1, 0.0)):
        found = bank.ask(name, "GET", f"/v1/drafts/{number}/preview").json()["questions"]
        assert (found["asked"], found["after"], len(found["lost"])) == (asked, after, 1), name


def test_agreement_counts_only_questions_that_the_caller_may_see(bank: Bank) -> None:
    bank.home.write(
        "asked.csv", "question,document\nwhat is the zebra of pay?,hr/pay.md\nwhen is the cutoff of wires?,wires.md\n"
    )
    assert surefind("exam", "import", bank.home.folder / "asked.csv", "--name", "own", kb=bank.home.folder).code == 0
    ExamStore(bank.kb.data / "exams").candidates("own").collect(["when is the cutoff of wires?"], "test")
    for name, shown in (("ada", "1 question"), ("boss", "2 questions")):
        page = bank.ask(name, "GET", "/label/own/agreement?made=1").text
        assert f"with {shown}." in page, name


# ---------------------------------------------------------------- the rest


def test_base_of_a_draft_does_not_tell_which_documents_exist(bank: Bank) -> None:
    hidden = bank.kb.history("hr/pay.md")[0].number
    for base in (str(hidden), "999", "99999999999999999999", "0", "-1", "x"):
        answers = [
            bank.ask("writer", "POST", "/drafts/new", data={"document": name, "text": "x", "base": base})
            for name in ("hr/pay.md", "nosuch.md", "wires.md")
        ]
        assert [answer.status_code for answer in answers] == [303] * 3, (base, [answer.text for answer in answers])


def test_draft_on_a_version_that_its_author_may_not_read_is_out_of_date(bank: Bank) -> None:
    hidden = bank.kb.history("hr/pay.md")[0].number
    made = bank.ask("writer", "POST", "/drafts/new", data={"document": "hr/pay.md", "text": "x", "base": str(hidden)})
    number = int(made.headers["location"].rpartition("/")[2])
    assert bank.kb.drafts.store.base(number).text == ""
    assert "was published again" in bank.ask("hr", "GET", f"/drafts/{number}").text


def test_number_of_a_version_does_not_tell_its_document(bank: Bank) -> None:
    hidden = bank.kb.history("hr/pay.md")[0].number
    for number in (hidden, 999):
        answer = bank.ask("ada", "POST", f"/v1/versions/{number}/restore")
        wanted = f"There is no version {number} among those you may read."
        assert (answer.status_code, answer.json()["detail"]) == (404, wanted)


def test_metrics_need_a_key_as_soon_as_there_is_one(home: Home) -> None:
    with home.open() as kb, TestClient(create_app(kb), base_url="http://127.0.0.1") as client:
        assert client.get("/metrics").status_code == 200
        key = Keys(kb.data).create("boss", ["admin"])[1]
        assert client.get("/metrics").status_code == 401
        assert client.get("/metrics", headers={"Authorization": f"Bearer {key}"}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "secure"),
    [
        ({}, False),
        ({"X-Forwarded-Proto": "https"}, True),
        ({"X-Forwarded-Proto": "HTTPS, http"}, True),
        ({"X-Forwarded-Proto": "http"}, False),
        ({"Forwarded": 'for=192.0.2.1;proto="https";host=x'}, True),
        ({"Forwarded": "for=192.0.2.1;proto=http"}, False),
    ],
)
def test_cookie_is_secure_behind_a_proxy_with_tls(home: Home, headers: dict[str, str], secure: bool) -> None:
    with home.open() as kb:
        key = Keys(kb.data).create("ada", ["read"])[1]
        with TestClient(create_app(kb)) as client:
            answer = client.post("/sign-in", data={"key": key}, headers=headers, follow_redirects=False)
        assert answer.status_code == 303
        assert ("; secure" in answer.headers["set-cookie"].lower()) == secure
