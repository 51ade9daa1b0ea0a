"""No page shows what a visitor may not read: every link of every page is followed, for visitors with every scope."""

from __future__ import annotations

import html
import re
from collections import deque
from urllib.parse import urljoin, urlsplit

import httpx
import pytest

from cases import each
from exam_helpers import surefind
from helpers import Home
from http_helpers import Rights, Served, a_bank

HTML = {"Accept": "text/html"}
SECRET = re.compile("zebra|secretkey|Restricted report")
GUESSED = (
    "/documents/hr/pay.md", "/documents/hr/pay.md?passage=0&query=zebra", "/documents?below=hr",
    "/documents?find=zebra", "/drafts", "/drafts/1", "/drafts/2", "/drafts/3", "/label", "/label/staff", "/reports",
    "/reports/benchmark/staff", "/reports/benchmark/staff/full", "/graph", "/graph/full", "/settings", "/?query=zebra",
    "/?query=salaries", "/?query=pay",
)  # fmt: skip
SCOPES = (["read"], ["write"], ["review"], ["read", "write", "review"])


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A bank with a restricted document, a draft of it, an exam and a report about it."""
    home = a_bank(Home(tmp_path_factory.mktemp("leaks")))
    home.write("asked.csv", "question,document\nwhat is the zebra of salaries?,hr/pay.md\n")
    home.write("new.md", "---\nacl: [hr]\n---\n# Bonus\n\nThe zebra of bonuses.\n")
    for words in (
        ("exam", "import", home.folder / "asked.csv", "--name", "staff"),
        ("draft", "new", home.folder / "new.md", "--document", "hr/pay.md"),
        ("bench", "--exam", "staff", "--pipeline", "words", "--as", "hr"),
    ):
        ran = surefind(*words, kb=home.folder)
        assert ran.code == 0, ran.err
    return home


@pytest.fixture(scope="module")
def rights() -> Rights:
    return {" ".join(scopes): (scopes, []) for scopes in SCOPES} | {"hr": (["admin"], ["hr"])}


def _crawl(http: httpx.Client, most: int = 250) -> dict[str, str]:
    """Returns every page that links lead to, and what the server said to addresses that were guessed."""
    waiting, seen = deque(["/", *GUESSED]), dict[str, str]()
    while waiting and len(seen) < most:
        path = waiting.popleft()
        if path in seen:
            continue
        answer = http.get(path, headers=HTML)
        assert answer.status_code < 500, (path, answer.text)
        seen[path] = answer.text.replace(html.escape(path), "")  # a page may repeat what was asked
        for link in re.findall(r'(?:href|action|hx-get)="([^"#]+)', answer.text):
            found = urljoin(path, html.unescape(link))
            if not urlsplit(found).netloc and found.startswith("/") and not found.startswith(("/static", "/sign")):
                waiting.append(found)
    return seen


@each("who", [*(" ".join(one) for one in SCOPES), "hr"])
def test_every_link_can_be_opened_and_every_page_left(server: Served, keys: dict[str, str], who: str) -> None:
    """Neither the menu nor a page shows a link that answers 403, and whoever signed in can sign out on each, also where
    an error is shown. Reports and the map, drawn by a script of their own, link back instead."""
    waiting, seen = deque(["/"]), set[str]()
    with server.client(keys[who]) as http:
        while waiting and len(seen) < 120:
            path = waiting.popleft()
            if path in seen:
                continue
            seen.add(path)
            answer = http.get(path, headers=HTML, follow_redirects=True)
            assert answer.status_code == 200, (path, answer.text)
            if "html" in answer.headers["content-type"] and not path.endswith(("/full", "/map")):
                assert path == "/docs" or "Sign out" in answer.text, path
            for link in re.findall(r'<a [^>]*href="([^"#]+)', answer.text):
                found = urljoin(path, html.unescape(link))
                if not urlsplit(found).netloc and found.startswith("/") and not found.startswith("/static"):
                    waiting.append(found)
        for path in ("/nothing/here", "/documents/missing.md", "/drafts?before=x", "/settings", "/reports/x/y"):
            answer = http.get(path, headers=HTML)
            assert "Sign out" in answer.text, (path, answer.status_code)
            assert who != "read" or 'href="/settings"' not in answer.text


def test_a_stranger_has_no_menu(server: Served) -> None:
    with server.client() as http:
        page = http.get("/sign-in", headers=HTML).text
    assert "Sign out" not in page and 'href="/reports"' not in page


def _asked(path: str) -> bool:
    """Whether the address itself has the secret, which the page then repeats."""
    return SECRET.search(path) is not None


def test_nothing_restricted_is_on_any_page(server: Served, keys: dict[str, str]) -> None:
    """The visitor who sees most; tests/test_route_matrix.py asks as everybody."""
    with server.client(keys[" ".join(SCOPES[-1])]) as http:
        pages = _crawl(http)
    assert len(pages) > 40
    leaks = [path for path, text in pages.items() if not _asked(path) and SECRET.search(text)]
    assert not leaks


def test_the_crawl_finds_what_is_there(server: Served, keys: dict[str, str]) -> None:
    """The same crawl shows the restricted document to somebody who may read it, so the test above can fail."""
    with server.client(keys["hr"]) as http:
        pages = _crawl(http)
    shown = {
        path.split("?")[0].split("/")[1] for path, text in pages.items() if not _asked(path) and SECRET.search(text)
    }
    assert {"documents", "drafts", "reports"} <= shown
