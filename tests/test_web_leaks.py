"""No page shows what a visitor may not read: every link of every page is followed, for visitors with every scope."""

from __future__ import annotations

import html
import re
from collections import deque
from urllib.parse import urljoin, urlsplit

import httpx
import pytest

from exam_helpers import surefind
from helpers import Home
from http_helpers import Rights, Served, a_bank

HTML = {"Accept": "text/html"}
SECRET = re.compile("zebra|secretkey|Restricted report")
GUESSED = (
    "/documents/hr/pay.md", "/documents/hr/pay.md?passage=0&q=zebra", "/documents?below=hr", "/documents?q=zebra",
    "/drafts", "/drafts/1", "/drafts/2", "/drafts/3", "/label", "/label/staff", "/reports", "/reports/benchmark/staff",
    "/reports/benchmark/staff/full", "/graph", "/graph/full", "/settings", "/?q=zebra", "/?q=salaries", "/?q=pay",
)  # fmt: skip
SCOPES = (["read"], ["read", "write"], ["read", "write", "review"])


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A bank with a restricted document, a draft of it, an exam and a report about it."""
    home = a_bank(Home(tmp_path_factory.mktemp("leaks")))
    home.write("asked.csv", "question,document\nwhat is the zebra of salaries?,hr/pay.md\n")
    home.write("new.md", "---\nacl: [hr]\n---\n# Bonus\n\nThe zebra of bonuses.\n")
    for words in (
        ("exam", "import", home.folder / "asked.csv", "--name", "staff"),
        ("version", "draft", home.folder / "new.md", "--document", "hr/pay.md"),
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


def _asked(path: str) -> bool:
    """Whether the address itself has the secret, which the page then repeats."""
    return SECRET.search(path) is not None


@pytest.mark.parametrize("scopes", [" ".join(one) for one in SCOPES])
def test_nothing_restricted_is_on_any_page(server: Served, keys: dict[str, str], scopes: str) -> None:
    with server.client(keys[scopes]) as http:
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
