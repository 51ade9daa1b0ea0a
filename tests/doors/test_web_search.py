"""The search page: a real server, asked by a plain client and by a real browser."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from cases import each
from helpers import Home
from http_helpers import SETTINGS, Served, a_bank, serving
from surefind.doors.auth.keys import Keys
from surefind.lab.exam import keeping
from surefind.lab.exam.store import ExamStore
from web_helpers import accessible, needs_browser, visiting

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HTML = {"Accept": "text/html"}
HOSTILE = "<script>document.title=1</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("bank"))
    home.write("docs/hostile.md", f"---\ntitle: '{HOSTILE}'\n---\n# {HOSTILE}\n\nA hostile wire {HOSTILE} cutoff.\n")
    home.write("docs/long.md", f"# {'W' * 300}\n\nThe longwire is at https://example.com/{'x' * 400}\n")
    home.write("docs/rtl.md", "# העברה\n\nמועד אחרון להעברה rtlwire הוא שלוש.\n")
    return a_bank(home)


def _get(server: Served, path: str, **headers: str) -> httpx.Response:
    with server.client() as http:
        return http.get(path, headers=HTML | headers)


def test_the_page_works_without_a_script(server: Served) -> None:
    found = _get(server, "/?query=cutoff+of+wire7")
    assert found.status_code == 200 and "Wire 7" in found.text and "<mark>" in found.text
    assert (
        re.search(r"<noscript>(Likely|Perhaps|Probably not) here, by the scores alone.</noscript>", found.text)
        and "Why this" in found.text
    )
    assert "zebra" not in found.text
    policy = found.headers["content-security-policy"]
    assert "script-src 'self';" in policy and "unsafe" not in policy
    assert not re.search(r"<script(?! src=\"/static/)|<style|style=|onclick=", found.text)
    assert "http" not in re.sub(r"Surefind|https?://example\.com", "", found.text)  # nothing from elsewhere
    size = sum(len(_get(server, path).content) for path in re.findall(r'(?:src|href)="(/static/[^"]+)"', found.text))
    assert size + len(found.content) < 300_000


def test_a_fragment_is_what_was_found_alone(server: Served) -> None:
    part = _get(server, "/?query=wire7", **{"HX-Request": "true"})
    assert "<html" not in part.text and "Wire 7" in part.text
    assert float(part.headers["server-timing"].rpartition("=")[2]) > 0


def test_an_empty_page_shows_examples_that_can_be_asked(server: Served) -> None:
    found = _get(server, "/").text
    links = re.findall(r'href="(/\?query=[^"]+)"', found)
    assert 2 <= len(links) <= 5 and "zebra" not in found and "Pay" not in found
    assert 'class="hit"' in _get(server, html.unescape(links[0])).text


def test_why_is_said_in_words_and_numbers_are_a_click_away(server: Served) -> None:
    found = _get(server, "/?query=wire7").text
    assert "<p>First by words.</p>" in found and found.index("First by words") < found.index("<summary>Numbers")


def test_documents_are_data(server: Served) -> None:
    found = _get(server, "/?query=hostile+wire")
    assert "<script>document" not in found.text and "<img" not in found.text
    assert "&lt;script&gt;document" in found.text


@each(
    ("path", "status", "says"),
    [
        ("/nothing", 404, "Nothing is here"),
        ("/?query=" + "x" * 2001, 400, "2,001 characters"),
        ("/?query=x&pipeline=unknown", 403, "no pipeline"),
        ("/?query=x&where=odd", 400, "odd"),
    ],
)
def test_an_error_is_a_page_with_one_sentence(server: Served, path: str, status: int, says: str) -> None:
    found = _get(server, path)
    assert found.status_code == status and says in found.text and "<html" in found.text
    part = _get(server, path, **{"HX-Request": "true"})
    assert part.status_code == status and "<html" not in part.text and 'role="alert"' in part.text
    with server.client() as http:
        assert http.get("/v1/nothing", headers=HTML).headers["content-type"] == "application/problem+json"


def test_a_hit_opens_at_the_sentence_that_it_marks(tmp_path: Path) -> None:
    """Which sentence is best depends on the other hits: where all of them speak of wires, the cutoff decides."""
    home = Home(tmp_path, SETTINGS)
    home.write("docs/a.md", "# Desk\n\nThe outgoing wire desk is upstairs. The cutoff is 15:00 for everybody.\n")
    for n in range(9):
        home.write(f"docs/{n}.md", f"# Note {n}\n\nAn outgoing wire of town {n} is an outgoing wire.\n")
    home.sync("docs")
    with serving(home.folder) as server:
        page = _get(server, "/?query=outgoing+wire+cutoff").text
        (link,) = re.findall(r'href="(/documents/a\.md[^"#]*)#passage"', page)
        shown = re.sub(r"</?b>", "", page)
        (marked,) = re.findall(r"<mark[^>]*>([^<]*15:00[^<]*)</mark>", _get(server, html.unescape(link)).text)
    assert marked.startswith("The cutoff is 15:00") and marked in re.sub(r"<[^>]+>", "", shown)


def test_nothing_to_search_is_said(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = Home(tmp_path_factory.mktemp("closed"))
    home.write("docs/pay.md", "---\nacl: [hr]\n---\nSalaries.\n")
    home.sync("docs")
    with serving(home.folder) as server:
        assert "nothing to search yet" in _get(server, "/").text


def test_thumbs_are_kept_once_and_only_for_what_one_may_read(server: Served, bank: Home) -> None:
    with server.client() as http:
        key = http.get("/v1/search", params={"query": "wire7"}).json()["hits"][0]["id"]
        form = {"query": "when is wire7?", "id": key, "kind": "up", "next": "/?query=wire7"}
        answer = http.post("/feedback", data=form)
        assert answer.status_code == 303 and answer.headers["location"] == "/?query=wire7"
        assert http.post("/feedback", data=form | {"next": "//evil.example"}).headers["location"] == "/"
        assert http.post("/feedback", data=form | {"id": "0" * 16}, headers=HTML).status_code == 404
        assert http.post("/feedback", data=form, headers={"Origin": "http://evil.example"}).status_code == 403
    with bank.open() as kb:
        assert [one.kind for one in keeping.given(kb.data) if one.query == "when is wire7?"] == ["up", "up"]


def test_filters_are_links_with_counts(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = Home(tmp_path_factory.mktemp("facets"))
    home.configure(SETTINGS)
    for n, status in enumerate(("approved", "approved", "draft")):
        home.write(f"docs/{n}.md", f"---\nstatus: {status}\n---\nA wire number {n}.\n")
    home.write("docs/hr.md", "---\nacl: [hr]\nstatus: secretvalue\n---\nA wire of hr.\n")
    home.sync("docs")
    with serving(home.folder) as server:
        found = _get(server, "/?query=wire").text
        assert "secretvalue" not in found
        links = dict(re.findall(r'href="(/[^"]*)"><span dir="auto">([^<]+)</span>', found))
        by_value = {value: html.unescape(link) for link, value in links.items()}
        assert by_value.keys() == {"approved", "draft"}
        one = _get(server, by_value["draft"]).text
        assert one.count('<li class="hit"') == 1 and 'aria-current="true"' in one
        both = html.unescape(re.findall(r'href="([^"]*approved[^"]*)"', one)[0])
        assert _get(server, both).text.count('<li class="hit"') == 3


def test_a_question_is_kept_with_one_click(server: Served, bank: Home) -> None:
    with server.client() as http:
        key = http.get("/v1/search", params={"query": "wire9"}).json()["hits"][0]["id"]
        said = http.post("/keep", data={"query": "when is wire9?", "id": key}, headers={"HX-Request": "true"})
        assert "Kept in the exam" in said.text
        assert (
            http.post("/keep", data={"query": "when is wire9?", "id": key, "next": "/?query=x"}).headers["location"]
            == "/?query=x"
        )
        assert http.post("/keep", data={"query": "x", "id": "0" * 16}, headers=HTML).status_code == 404
    with bank.open() as kb:
        (kept,) = ExamStore(kb.data / "exams").load("kept").queries
        assert kept.text == "when is wire9?"


# ---------------------------------------------------------------- signing in


def test_visitors_sign_in_and_see_their_documents(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = a_bank(Home(tmp_path_factory.mktemp("keys")))
    with home.open() as kb:
        keys = Keys(kb.data)
        _, hr = keys.create("hannah", ["read"], ["hr"])
        _, plain = keys.create("paul", ["read"])
    with serving(home.folder) as server, server.client() as http:
        sent = http.get("/?query=salaries", headers=HTML)
        assert sent.status_code == 303 and sent.headers["location"] == "/sign-in?next=/%3Fquery%3Dsalaries"
        assert (
            http.get("/?query=salaries", headers={"HX-Request": "true"}).headers["hx-redirect"].startswith("/sign-in")
        )
        wrong = http.post("/sign-in", data={"key": "sf_wrong", "next": "/"})
        assert wrong.status_code == 401 and "not valid" in wrong.text and "set-cookie" not in wrong.headers
        for key, sees in ((plain, False), (hr, True)):
            begun = http.post("/sign-in", data={"key": key, "next": "/?query=salaries"})
            assert begun.status_code == 303 and begun.headers["location"] == "/?query=salaries"
            cookie = begun.headers["set-cookie"]
            assert "HttpOnly" in cookie and "SameSite=lax" in cookie and key not in cookie
            assert ("zebra" in http.get("/?query=salaries", headers=HTML).text) is sees
            assert http.get("/v1/search", params={"query": "salaries"}).status_code == 200
        with home.open() as kb:
            Keys(kb.data).revoke("hannah")
        assert http.get("/?query=salaries", headers=HTML).status_code == 303  # a revoked key ends its session at once
        http.post("/sign-in", data={"key": plain})
        assert http.get("/", headers=HTML).status_code == 200
        http.post("/sign-out")
        assert http.get("/", headers=HTML).status_code == 303
        for target in ("//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", ""):
            assert http.post("/sign-in", data={"key": plain, "next": target}).headers["location"] == "/"


# ---------------------------------------------------------------- in a browser


@needs_browser
def test_results_appear_while_typing(server: Served, browser: Browser) -> None:
    with visiting(browser, server.url) as page:
        page.goto("/")
        accessible(page)
        page.keyboard.type("cutoff of wire7", delay=15)
        page.wait_for_url(re.compile(r"query=cutoff(\+|%20)of(\+|%20)wire7"))
        page.get_by_role("link", name="Wire 7", exact=True).wait_for()
        accessible(page)
        page.keyboard.press("ArrowDown")
        assert page.evaluate("document.activeElement.textContent") == "Wire 7"
        page.keyboard.press("w")
        assert page.locator(".hit details.why[open]").count() == 1
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.id") == "query"
        page.locator(".hit").first.get_by_role("button", name="Helpful", exact=True).click()
        page.get_by_text("Thank you").wait_for()
        page.get_by_label("Beside it").select_option("counts")
        page.get_by_role("heading", name="counts").wait_for()
        assert page.locator(".columns.two .badge").count() > 0
        accessible(page)
        page.reload()
        assert page.locator(".columns.two").count() == 1  # the address holds all of it


@needs_browser
@pytest.mark.parametrize("query", ["hostile", "longwire", "rtlwire"])
def test_odd_documents_stay_inside_the_page(server: Served, browser: Browser, query: str) -> None:
    with visiting(browser, server.url, viewport={"width": 360, "height": 700}, color_scheme="dark") as page:
        page.goto(f"/?query={query}&compare=counts")
        assert page.locator(".hit").count() >= 1
        assert page.title() == f"{query} – Search – Surefind"
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        accessible(page)


@needs_browser
def test_the_page_works_with_scripts_turned_off_and_says_when_the_server_is_gone(
    tmp_path_factory: pytest.TempPathFactory, browser: Browser
) -> None:
    home = a_bank(Home(tmp_path_factory.mktemp("gone")))
    with serving(home.folder) as server:
        with visiting(browser, server.url, java_script_enabled=False) as page:
            page.goto("/")
            page.get_by_role("searchbox").fill("wire7")
            page.keyboard.press("Enter")
            page.get_by_role("link", name="Wire 7", exact=True).wait_for()
        context = browser.new_context(base_url=server.url)
        page = context.new_page()
        page.goto("/?query=wire7")
        server.process.terminate()
        server.process.wait(20)
        page.get_by_role("searchbox").fill("wire8")
        page.get_by_text("The server does not answer").wait_for()
        assert page.get_by_role("searchbox").input_value() == "wire8"
        context.close()


@needs_browser
def test_going_back_shows_the_whole_page(server: Served, browser: Browser) -> None:
    with visiting(browser, server.url) as page:
        page.goto("/")
        page.get_by_label("Question").press_sequentially("cutoff of wire7")
        page.locator(".hit").first.wait_for()
        page.focus("a.skip")
        page.keyboard.press("Enter")
        page.wait_for_url("**#main")
        with page.expect_response(lambda answer: "query=cutoff" in answer.url):
            page.go_back()
        page.locator(".hit").first.wait_for()
        assert page.get_by_label("Question").count() == page.locator("header.bar").count() == 1


@needs_browser
def test_a_phone_shows_the_active_tab_results_first_and_filters_in_a_sheet(
    tmp_path_factory: pytest.TempPathFactory, browser: Browser
) -> None:
    home = Home(tmp_path_factory.mktemp("phone"))
    home.configure(SETTINGS)
    for n in range(6):
        home.write(
            f"docs/{('wires', 'cash')[n % 2]}/{n}.md", f"---\nstatus: {('new', 'old')[n % 2]}\n---\nA wire {n}.\n"
        )
    home.sync("docs")
    with serving(home.folder) as server, visiting(browser, server.url, viewport={"width": 360, "height": 740}) as page:
        for path in ("/?query=wire", "/settings", "/graph", "/docs"):
            page.goto(path)
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
        page.goto("/settings")
        box = page.locator("nav [aria-current]").bounding_box()
        assert box and box["x"] >= 0 and box["x"] + box["width"] <= 360
        page.goto("/?query=wire")
        choice = page.locator(".facets").get_by_role("link", name="wires 3")
        assert not choice.is_visible()
        first = page.locator(".hit").first.bounding_box()
        assert first and first["y"] < 500
        page.get_by_text("Filters").click()
        accessible(page)
        choice.click()
        page.wait_for_url("**where=path*")
        assert page.locator(".hit").count() == 3
