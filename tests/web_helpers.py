"""A real browser for the tests of the pages: the Chromium of this machine, driven by Playwright."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
BROWSER = (pytest.mark.browser, pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium on this machine"))
"""The marks of tests that need a browser: `make browser` runs them."""


def needs_browser(test: Any) -> Any:
    """Marks a test that needs a browser."""
    for mark in BROWSER:
        test = mark(test)
    return test


@contextlib.contextmanager
def browsing() -> Iterator[Browser]:
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def visiting(browser: Browser, url: str, key: str = "", **options: Any) -> Iterator[Page]:
    """A page of one person, who signs in if there is a key. The test fails if the page logs an error, or asks another
    host for anything."""
    context = browser.new_context(base_url=url, **options)
    page, wrong = context.new_page(), list[str]()
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda sent: wrong.append(sent.url) if not sent.url.startswith((url, "data:")) else None)
    try:
        if key:
            page.goto("/sign-in")
            page.get_by_label("API key").fill(key)
            page.get_by_role("button", name="Sign in").click()
            page.get_by_role("button", name="Sign out").wait_for()
        yield page
    finally:
        context.close()
    # The browser notes refused requests, and those that the next keystroke replaced. These are no errors of the page.
    usual = ("the server responded with a status of", "htmx:sendAbort", "htmx:afterRequest")
    refused = [text for text in wrong if not any(note in text for note in usual)]
    assert not refused, refused


def accessible(page: Page) -> None:
    """Fails if axe-core finds anything serious on the page."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    shown = [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in serious]
    assert not serious, shown


_SPILLS = """() => {
  const bad = [], page = document.documentElement;
  if (page.scrollWidth > innerWidth) bad.push("the page is " + page.scrollWidth);
  for (const e of document.body.querySelectorAll("*")) {
    const style = getComputedStyle(e);
    if (e.closest("svg, select, .sr, .skip") || !e.clientWidth || style.display === "inline") continue;
    if (style.overflowX === "visible" && e.scrollWidth > e.clientWidth + 1)
      bad.push(`${e.tagName}.${e.className}: ${e.scrollWidth} in ${e.clientWidth}`);
  }
  return bad;
}"""


def fits(page: Page) -> None:
    """Fails if the content of an element is wider than the element, so that it is printed over what stands beside it,
    or makes the page wider than the window."""
    spills = page.evaluate(_SPILLS)
    assert spills == [], spills
