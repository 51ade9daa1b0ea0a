"""axe-core finds nothing serious on any page, in light and in dark, on a desk and on a phone.

Every route of the pages is opened: a page that nobody added here fails `test_no_page_is_left_out`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from exam_helpers import surefind
from helpers import Home
from http_helpers import SETTINGS, Rights, Served, serving
from surefind.base.access import Caller
from surefind.doors.server import PAGES
from surefind.kb import KnowledgeBase
from surefind.lab.exam.judging import Judging
from surefind.lab.exam.store import ExamStore
from web_helpers import accessible, fits, needs_browser, visiting

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

GUIDE = """---
title: Guide to everything
status: approved
---
# Guide

A paragraph with **bold** and *slanted* words, `code`, and a link to [wire 1](wires/1.md).

- first
- second
  1. inner

> A quotation.

| column | other |
|---|---|
| a cell | 12 |

```
a block of code, which is long enough to scroll sideways on a phone, if it is not wrapped before it reaches the edge
```
"""
ELSEWHERE = {
    "/first-key": "test_the_first_key_pages",
    "/sign-in": "test_the_page_to_sign_in",
    "/static/{name}": "a file",
    "/sure": "a part of the search page",
    "/picture": "a file",
    "/drafts/{number}/comment": "a part of the review page, which is opened there",
    "/settings/models": "a part of the settings",
    "/graph/map": "drawn by the script of bench, whose pages test_page_layout.py opens",
}
"""Routes that the walk below does not open, and who does, or why nobody has to."""


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("axe"), SETTINGS)
    for n in range(8):
        state = ("approved", "draft")[n % 2]
        home.write(f"docs/wires/{n}.md", f"---\nstatus: {state}\n---\n# Wire {n}\n\nThe cutoff of wire{n} is {n} pm.\n")
    home.write("docs/guide.md", GUIDE)
    home.sync("docs")
    asked = [json.dumps({"query": f"cutoff of wire{n}", "document": f"wires/{n}.md"}) for n in range(4)]
    home.write("asked.jsonl", "\n".join(asked))
    for words in (
        ("exam", "import", str(home.folder / "asked.jsonl")),
        ("bench", "--exam", "asked", "-p", "words", "-p", "counts"),
        ("study", "context-layer", "--exam", "asked", "--offline"),
        ("draft", "retire", "wires/6.md", "--no-gate"),
    ):
        ran = surefind(*words, kb=home.folder)
        assert ran.code == 0, (words, ran.err)
    ExamStore(home.folder / ".surefind" / "exams").candidates("open").collect(["cutoff of wire3"], "test")
    with home.open() as kb:
        Judging(kb, "open", Caller("ada", frozenset(), frozenset())).make_pool(["words", "counts"])
        draft = kb.drafts.add_bytes("guide.md", GUIDE.replace("first", "the first").encode(), author="ada")
        kb.drafts.review(draft.number, author="ada")
    return home


@pytest.fixture(scope="module")
def rights() -> Rights:
    return {"ada": (["admin"], ["*"]), "bob": (["review"], ["*"])}


def pages_of(kb: KnowledgeBase) -> dict[str, list[str]]:
    """The addresses to open, by route."""
    (draft,) = kb.drafts.store.waiting()
    kept = kb.history("guide.md")[0].number
    reports = {path.parent.name: "benchmark" for path in kb.data.glob("reports/*/report.json")}
    reports |= {path.parent.name: "study" for path in kb.data.glob("studies/*/study.json")}
    assert set(reports.values()) == {"benchmark", "study"}, reports
    return {
        "/": ["/", "/?query=cutoff+of+wire3", "/?query=cutoff&compare=counts", "/?query=zzzxqy",
              "/?query=cutoff&where=status%3Dapproved"],
        "/ask": ["/ask", "/ask?query=When+is+the+cutoff+of+wire3%3F", "/ask?query=zzzxqy"],
        "/documents": ["/documents", "/documents?find=wire", "/documents?in=wires"],
        "/documents/{document_id:path}": [
            "/documents/guide.md", "/documents/guide.md?view=source", "/documents/wires/6.md", "/documents/none.md",
            f"/documents/guide.md?version={kept}",
        ],
        "/retire": ["/retire?document=" + quote("wires/1.md")],
        "/drafts": ["/drafts"],
        "/drafts/new": ["/drafts/new", "/drafts/new?write=1", "/drafts/new?write=1&document=guide.md"],
        "/drafts/{number}": [f"/drafts/{draft.number}", f"/drafts/{draft.number}?revision=1"],
        "/drafts/{number}/chunks": [f"/drafts/{draft.number}/chunks"],
        "/drafts/{number}/questions": [f"/drafts/{draft.number}/questions"],
        "/drafts/{number}/text": [f"/drafts/{draft.number}/text"],
        "/drafts/{number}/edit": [f"/drafts/{draft.number}/edit"],
        "/label": ["/label"],
        "/label/{name}": ["/label/open"],
        "/label/{name}/agreement": ["/label/open/agreement"],
        "/reports": ["/reports"],
        "/reports/{kind}/{report_id}": [f"/reports/{kind}/{quote(name)}" for name, kind in reports.items()],
        "/reports/{kind}/{report_id}/full": [f"/reports/{kind}/{quote(name)}/full" for name, kind in reports.items()],
        "/jobs/{job_id}": ["/jobs/none"],
        "/graph": ["/graph"],
        "/settings": ["/settings"],
    }  # fmt: skip


def in_both_modes(page: Page, width: int) -> None:
    for mode in ("light", "dark"):
        page.emulate_media(color_scheme=mode)  # type: ignore[arg-type]
        accessible(page)
    if width < 400:
        fits(page)


def test_no_page_is_left_out(bank: Home) -> None:
    routes = {route.path for router in PAGES for route in router.routes if "GET" in (route.methods or ())}  # type: ignore[attr-defined]
    with bank.open() as kb:
        opened = {*pages_of(kb)}
    assert routes == opened | {*ELSEWHERE} and not opened & {*ELSEWHERE}


def routes_to_open() -> Iterator[str]:
    for router in PAGES:
        for route in router.routes:
            if "GET" in (route.methods or ()) and route.path not in ELSEWHERE:  # type: ignore[attr-defined]
                yield route.path  # type: ignore[attr-defined]


@needs_browser
@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("route", [*routes_to_open()])
def test_every_page(bank: Home, server: Served, keys: dict[str, str], browser: Browser, route: str, width: int) -> None:
    with bank.open() as kb:
        paths = pages_of(kb)[route]
    who = "bob" if route.startswith("/drafts/{number}") else "ada"  # bob reviews what ada wrote
    with visiting(browser, server.url, keys[who], viewport={"width": width, "height": 800}) as page:
        for path in paths:
            page.goto(path)
            page.wait_for_load_state("networkidle")
            in_both_modes(page, width)


@needs_browser
@pytest.mark.parametrize("width", [1280, 360])
def test_what_opens_on_a_page(server: Served, keys: dict[str, str], browser: Browser, width: int) -> None:
    """The sheet of filters, why a hit was found, a comment, a preview, a key, the end of a job."""
    view = {"width": width, "height": 800}
    with visiting(browser, server.url, keys["ada"], viewport=view) as page:
        page.goto("/?query=cutoff+of+wire3")
        if width < 400:
            page.get_by_text("Filters").first.click()
            in_both_modes(page, width)
            page.keyboard.press("Escape")
            page.goto("/?query=cutoff+of+wire3")
        page.locator("details.why summary").first.click()
        in_both_modes(page, width)
        page.goto("/drafts/new?write=1&document=guide.md")
        for name in ("Preview", "Show the chunks"):
            page.get_by_role("button", name=name).click()
            page.wait_for_load_state("networkidle")
            page.locator("#shown > *").first.wait_for()
            in_both_modes(page, width)
        page.goto("/settings")
        page.get_by_text("Make a key").click()
        page.get_by_text("What scopes and groups mean").click()
        in_both_modes(page, width)
        page.goto("/reports")
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        in_both_modes(page, width)
        page.goto("/documents/wires/2.md")
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        in_both_modes(page, width)
        page.goto("/reports")
        page.get_by_role("button", name="Start the benchmark").click()
        in_both_modes(page, width)
        page.get_by_role("link", name="See the result").wait_for(timeout=60_000)
        in_both_modes(page, width)
    with visiting(browser, server.url, keys["bob"], viewport=view) as page:
        page.goto("/drafts")
        page.get_by_role("link", name="Guide to everything").click()
        page.get_by_role("link", name="Comment on line 7").click()
        page.locator("#say textarea").wait_for()
        in_both_modes(page, width)


@needs_browser
@pytest.mark.parametrize("width", [1280, 360])
def test_the_page_to_sign_in(server: Served, browser: Browser, width: int) -> None:
    with visiting(browser, server.url, viewport={"width": width, "height": 800}) as page:
        page.goto("/sign-in")
        in_both_modes(page, width)
        page.get_by_label("API key").fill("sf_wrong")
        page.get_by_role("button", name="Sign in").click()
        in_both_modes(page, width)


@needs_browser
@pytest.mark.parametrize("width", [1280, 360])
def test_the_first_key_pages(tmp_path_factory: pytest.TempPathFactory, browser: Browser, width: int) -> None:
    home = Home(tmp_path_factory.mktemp("first"), SETTINGS)
    with (
        serving(home.folder) as server,
        visiting(browser, server.url, viewport={"width": width, "height": 800}) as page,
    ):
        link = re.search(r"/first-key\?token=\S+", server.log.read_text())
        assert link
        page.goto(link[0])
        in_both_modes(page, width)
        page.get_by_label("Your name").fill("ada")
        page.get_by_role("button", name="Make the key").click()
        page.get_by_text("only time that the key is shown").wait_for()
        in_both_modes(page, width)
        for path in ("/", "/documents", "/drafts", "/label", "/reports", "/graph", "/settings", link[0]):
            page.goto(path)
            in_both_modes(page, width)
