"""The pages for labels: two judges, blind and by keyboard, and how far they agree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import Home
from http_helpers import Rights, Served, a_bank, serving
from surefind.base.access import Access, Caller
from surefind.lab.exam.judging import Judging, in_words, judge_name
from surefind.lab.exam.labels import Labels, agreement
from surefind.lab.exam.questions import Questions
from surefind.lab.exam.store import ExamStore
from web_helpers import accessible, fits, needs_browser, visiting

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

QUESTIONS = ["cutoff of wire7", "cutoff of wire9", "zebra salaries wire"]
HTML = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A pool of three questions. One has a passage that only hr may read."""
    home = a_bank(Home(tmp_path_factory.mktemp("bank")))
    exams = ExamStore(home.folder / ".surefind" / "exams")
    exams.candidates("asked").collect(QUESTIONS, "test")
    with home.open() as kb:
        Judging(kb, "asked", Caller("owner", frozenset(), frozenset({"hr"}))).make_pool(["words", "counts"], size=4)
    return home


@pytest.fixture(scope="module")
def rights() -> Rights:
    both = ["read", "review"]
    return {"anna": (both, ["hr"]), "bert b": (both, ["hr"]), "carla": (both, []), "reader": (["read"], ["hr"])}


@pytest.fixture
def labels(bank: Home) -> Iterator[Labels]:
    """The labels, which every test begins without."""
    found = ExamStore(bank.folder / ".surefind" / "exams").labels("asked")
    yield found
    for judge, marks in found.all().items():
        for query in marks:
            found.mark(judge, query, None)


def shown(page: Page) -> list[str]:
    return [text.strip() for text in page.locator(".passage label").all_inner_texts()]


@needs_browser
def test_two_judges_label_by_keyboard_and_see_how_far_they_agree(
    server: Served, keys: dict[str, str], browser: Browser, labels: Labels
) -> None:
    pool = labels.pool()
    orders: dict[str, list[str]] = {}
    for who, marks in (("anna", ["1", "2", "2"]), ("bert b", ["1", "1", "x"])):
        with visiting(browser, server.url, keys[who]) as page:
            page.goto("/label")
            accessible(page)
            page.get_by_role("link", name="Label", exact=True).last.click()
            accessible(page)
            assert "counts" not in page.locator("main").inner_text()  # nothing tells which configuration found it
            for at, mark in enumerate(marks):
                heading = page.get_by_role("heading", level=1).inner_text()
                assert heading == QUESTIONS[at]
                orders.setdefault(who, []).append("|".join(shown(page)))
                page.keyboard.press(mark)
                if mark != "x":
                    page.keyboard.press("Enter")
                page.wait_for_function("text => document.querySelector('h1')?.textContent !== text", arg=heading)
                assert len(labels.of(judge_name(who))) == at + 1  # every label is saved at once
            assert "every question" in page.locator("main").inner_text()
            page.get_by_role("link", name="See how far").click()
            accessible(page)
            text = page.locator("main").inner_text()
    assert orders["anna"] != orders["bert b"]  # each judge sees another order
    (pair,) = agreement(pool, {judge: labels.of(judge) for judge in list(labels.all())})
    assert pair.kappa is not None and f"{pair.kappa:.2f}" in text and in_words(pair.kappa) in text
    assert "Where they differ" in text

    with visiting(browser, server.url, keys["anna"]) as page:
        page.goto("/label/asked/agreement")
        page.get_by_role("button", name="Make the exam").click()
        assert "version 1" in page.get_by_role("status").inner_text()


@needs_browser
def test_the_arrows_and_y_and_n_judge_one_passage_after_the_other(
    server: Served, keys: dict[str, str], browser: Browser, labels: Labels
) -> None:
    with visiting(browser, server.url, keys["anna"]) as page:
        page.goto("/label/asked?at=2")
        for key in ("y", "n", "y", "ArrowUp", "n"):
            page.keyboard.press(key)
        boxes = page.locator("input[name=relevant]")
        assert [boxes.nth(i).is_checked() for i in range(3)] == [True, False, False]
        assert "1 marked" in page.locator("[data-marked]").inner_text()


@needs_browser
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_spills(server: Served, keys: dict[str, str], browser: Browser, labels: Labels, width: int) -> None:
    size = {"width": width, "height": 800}
    with visiting(browser, server.url, keys["anna"], viewport=size, color_scheme="dark") as page:
        for path in ("/label", "/label/asked", "/label/asked/agreement"):
            page.goto(path)
            fits(page)
            accessible(page)


def test_labels_without_a_script(server: Served, keys: dict[str, str], labels: Labels) -> None:
    with server.client(keys["anna"]) as http:
        page = http.get("/label/asked", headers=HTML).text
        key = page.partition('name="id" value="')[2].partition('"')[0]
        nothing = http.post("/label/asked", data={"id": key}, headers=HTML)
        assert nothing.status_code == 400 and "say that none is" in nothing.text
        wrong = http.post("/label/asked", data={"id": key, "relevant": ["99"]}, headers=HTML)
        assert wrong.status_code == 400 and not labels.of("anna")
        saved = http.post("/label/asked", data={"id": key, "relevant": ["2", "1"], "judge": "bert"}, headers=HTML)
        assert saved.status_code == 303 and saved.headers["location"].endswith("at=2")
    (query,) = labels.of("anna")
    order = labels.pool()[0].order_for("anna")
    assert labels.of("anna")[query] == [order[1], order[0]]
    assert list(labels.all()) == ["anna"]  # nobody labels in the name of another


def test_a_passage_from_outside_the_pool_is_added_on_the_page(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = a_bank(Home(tmp_path_factory.mktemp("added")))
    exams = ExamStore(home.folder / ".surefind" / "exams")
    exams.candidates("asked").collect(QUESTIONS[:1], "test")
    with home.open() as kb:
        Judging(kb, "asked", Caller("owner", frozenset(), frozenset())).make_pool(["words", "counts"], size=2)
        pooled = {passage.document for passage in exams.labels("asked").pool()[0].passages}
        other = next(one for one in kb.documents(Access.public()) if one.id not in pooled and len(one.text) > 20)
    with serving(home.folder) as server, server.client() as http:
        page = http.get("/label/asked?judge=anna", headers=HTML).text
        given = {"id": page.partition('name="id" value="')[2].partition('"')[0], "judge": "anna", "document": other.id}
        wrong = http.post("/label/asked", data={**given, "words": "nobody says this"}, headers=HTML)
        assert wrong.status_code == 400 and "does not contain the passage" in wrong.text
        quote = other.text.strip()[-20:].strip()
        assert http.post("/label/asked", data={**given, "words": quote}, headers=HTML).status_code == 303
    (pool,) = exams.labels("asked").pool()
    assert (pool.passages[-1].document, pool.passages[-1].added) == (other.id, "anna")
    assert exams.labels("asked").of("anna") == {QUESTIONS[0]: [len(pool.passages) - 1]}


def test_a_question_with_a_passage_that_the_judge_may_not_read_is_not_shown(
    server: Served, keys: dict[str, str], labels: Labels
) -> None:
    hidden = [one.query for one in labels.pool() if any(p.document == "hr/pay.md" for p in one.passages)]
    assert hidden
    with server.client(keys["carla"]) as http:
        for path in ("/label", "/label/asked", "/label/asked/agreement", *(f"/label/asked?at={n}" for n in (1, 2, 3))):
            text = http.get(path, headers=HTML).text
            assert "zebra" not in text and not any(query in text for query in hidden), path
    with server.client(keys["reader"]) as http:
        assert http.get("/label", headers=HTML).status_code == 403


def test_labels_of_others_are_not_shown_before_ones_own(server: Served, keys: dict[str, str], labels: Labels) -> None:
    first = labels.pool()[0]
    labels.mark("anna", first.query, [0])
    labels.mark("owner", first.query, [1])
    with server.client(keys["bert b"]) as http:
        assert "Where they differ" not in http.get("/label/asked/agreement", headers=HTML).text
    with server.client(keys["anna"]) as http:
        assert "Where they differ" in http.get("/label/asked/agreement", headers=HTML).text


def test_questions_are_collected_and_bad_names_refused(server: Served, keys: dict[str, str], bank: Home) -> None:
    with server.client(keys["anna"]) as http:
        bad = http.post("/label", data={"name": "../x", "questions": "When is the wire cutoff?"}, headers=HTML)
        empty = http.post("/label", data={"name": "new", "questions": "hello"}, headers=HTML)
        good = http.post("/label", data={"name": "new", "questions": "When is the wire cutoff?\nhi\n"}, headers=HTML)
        assert (bad.status_code, empty.status_code, good.status_code) == (400, 400, 303)
        page = http.get("/label", headers=HTML).text
        assert "1 question without passages" in page and "Collect passages" in page
        assert http.get("/label/nonesuch", headers=HTML).status_code == 404
    assert len(ExamStore(bank.folder / ".surefind" / "exams").candidates("new").all()) == 1


@given(st.lists(st.text(min_size=1, max_size=80), min_size=2, max_size=2, unique=True))
def test_names_of_judges_fit_into_files_and_stay_apart(names: list[str]) -> None:
    made = [judge_name(name) for name in names]
    assert made[0] != made[1]
    nowhere = Labels(Questions(Path("nowhere")), "x")
    assert [nowhere.of(name) for name in made] == [{}, {}]  # a name that a judge cannot have raises


def test_judges_of_an_open_server_say_who_they_are(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = a_bank(Home(tmp_path_factory.mktemp("open")))
    ExamStore(home.folder / ".surefind" / "exams").candidates("asked").collect(QUESTIONS, "test")
    with serving(home.folder) as server, server.client() as http:
        assert "Your name" in http.get("/label", headers=HTML).text
        assert http.get("/label/asked", headers=HTML).headers["location"] == "/label"
        assert "There are no passages to label" in http.get("/label/asked?judge=anna", headers=HTML).text
