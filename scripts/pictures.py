"""Walks through docs/first-pages.md with a real browser, and takes its pictures.

    python scripts/pictures.py docs/img

It makes a knowledge base of the sample, serves it, and does what the page says, as two people. It needs Chromium and
playwright (`pip install '.[dev]'`). tests/doors/test_first_pages.py runs it, too.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from surefind.doors.cli.demo import sample_folder, sample_vectors
from surefind.kb import KnowledgeBase

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
SIZE = {"width": 1100, "height": 700}
DOCUMENT = "sops/sop-301-outgoing-domestic-wire.md"
QUESTIONS = "When is the cutoff for outgoing wires?\nWho may change a vault combination?\nWhat does PLN-54 mean?"
COLOURS = 64
"""Colours of a picture: text needs few, and the file is a third as large."""
LONG = 120_000
"""Milliseconds that a job may take."""


class Walk:
    """The walk: what is done, what was seen on the way, and the pictures."""

    def __init__(self, browser: Browser, url: str, link: str, folder: Path) -> None:
        self.browser = browser
        self.url = url
        self.link = link
        self.folder = folder
        self.seen: list[str] = []
        """The text of each page at each step."""

    def person(self, key: str = "") -> Page:
        page = self.browser.new_context(base_url=self.url, viewport=SIZE).new_page()  # type: ignore[arg-type]
        page.on("load", lambda opened: self.look(opened))
        if key:
            page.goto("/sign-in")
            page.get_by_label("API key").fill(key)
            self.press(page, "Sign in")
            page.get_by_role("button", name="Sign out").wait_for()
        return page

    def look(self, page: Page) -> None:
        with contextlib.suppress(Exception):  # the page may have moved on
            self.seen.append(page.locator("body").inner_text())

    def press(self, page: Page, name: str) -> None:
        self.look(page)
        page.get_by_role("button", name=name, exact=True).first.click()

    def follow(self, page: Page, name: str, wait: int = LONG) -> None:
        link = page.get_by_role("link", name=name).first
        link.wait_for(timeout=wait)
        self.look(page)
        link.click()

    def picture(self, page: Page, name: str) -> None:
        self.look(page)
        page.wait_for_load_state("networkidle")
        taken = Image.open(io.BytesIO(page.screenshot()))
        taken.quantize(COLOURS).save(self.folder / f"{name}.png", optimize=True)

    # ------------------------------------------------------------ the steps of the page

    def first_key(self) -> Page:
        ada = self.person()
        ada.goto(self.link)
        ada.get_by_label("Your name").fill("ada")
        self.press(ada, "Make the key and sign in")
        ada.get_by_text("only time that the key is shown").wait_for()
        self.picture(ada, "first-key")
        self.follow(ada, "Go on to the documents")
        return ada

    def documents(self, ada: Page) -> None:
        ada.get_by_label("A folder on this server").fill("handbook")
        self.press(ada, "Read the folder")
        self.follow(ada, "See the result")

    def search(self, ada: Page) -> None:
        ada.goto("/?query=outgoing+wire+cutoff")
        ada.locator(".sure").first.wait_for()
        self.picture(ada, "search")
        self.follow(ada, "Sending an Outgoing Domestic Wire")
        ada.get_by_role("link", name="Edit").wait_for()
        self.picture(ada, "document")

    def draft(self, ada: Page) -> str:
        self.follow(ada, "Edit")
        box = ada.get_by_label("Text, in Markdown")
        box.fill(box.input_value().replace("Cutoff is **15:00**", "Cutoff is **14:30**"))
        self.press(ada, "Preview")
        ada.locator("#shown").get_by_text("14:30").first.wait_for()
        ada.locator("#shown").evaluate("shown => scrollTo(0, shown.getBoundingClientRect().top + scrollY - 420)")
        self.picture(ada, "editor")
        self.press(ada, "Make a draft")
        self.press(ada, "Submit for review")
        ada.get_by_text("You wrote a part of it").wait_for()
        return ada.url

    def second_person(self, ada: Page) -> Page:
        ada.goto("/settings")
        self.look(ada)
        ada.get_by_text("Make a key").click()
        ada.get_by_label("Name").fill("grace")
        ada.get_by_label("review").check()
        ada.get_by_label("Groups").fill("*")
        self.press(ada, "Make the key")
        key = ada.locator("pre.key").inner_text().strip()
        return self.person(key)

    def review(self, grace: Page, draft: str) -> None:
        grace.goto(draft)
        grace.locator(".diff").first.wait_for()
        grace.get_by_text("chunks").first.wait_for()
        self.picture(grace, "review")
        self.press(grace, "Approve revision 1")
        self.press(grace, "Publish")
        self.follow(grace, "See the result")
        grace.goto("/?query=outgoing+wire+cutoff")
        grace.get_by_text("14:30").first.wait_for()

    def label(self, ada: Page) -> None:
        ada.goto("/label")
        self.look(ada)
        ada.get_by_label("Questions, one a line").fill(QUESTIONS)
        self.press(ada, "Add them")
        self.look(ada)
        self.press(ada, "Collect passages")
        self.follow(ada, "See the result")
        ada.get_by_role("heading", level=1).filter(has_text="?").wait_for()
        self.picture(ada, "label")
        for _ in QUESTIONS.splitlines():
            ada.locator("input[name=relevant]").first.check()
            self.press(ada, "Save")
        self.follow(ada, "See how far the judges agree")
        self.press(ada, "Make the exam")
        ada.get_by_role("status").wait_for()

    def benchmark(self, ada: Page) -> None:
        ada.goto("/reports")
        self.press(ada, "Start the benchmark")
        self.follow(ada, "See the result")
        ada.locator("table").first.wait_for()
        self.picture(ada, "report")
        ada.goto("/reports")
        self.look(ada)
        ada.get_by_text("Adopt another row").click()
        ada.get_by_label("Configuration", exact=True).select_option("BM25")
        self.press(ada, "Adopt")
        self.follow(ada, "See the result")
        self.look(ada)
        ada.get_by_role("button", name="Undo the last change").click()
        ada.get_by_text("Searches use pair now").wait_for()

    def whole(self) -> None:
        ada = self.first_key()
        self.documents(ada)
        self.search(ada)
        draft = self.draft(ada)
        self.review(self.second_person(ada), draft)
        self.label(ada)
        self.benchmark(ada)


@contextlib.contextmanager
def served(folder: Path) -> Iterator[tuple[str, str]]:
    """Serves a new knowledge base. Yields its URL and the link that makes the first key."""
    command = [sys.executable, "-m", "surefind"]
    subprocess.run([*command, "init", "--kb", str(folder)], check=True, stdout=subprocess.DEVNULL)
    shutil.copytree(sample_folder(), folder / "handbook")
    with KnowledgeBase.open(folder) as kb:
        kb.services.keep_vectors(sample_vectors("minilm"))  # the encoder would take a minute
    serve = [*command, "serve", "--kb", str(folder), "--port", "0"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout
            printed = ""
            while "first-key" not in printed:
                line = process.stdout.readline()
                assert line, printed
                printed += line
            url = re.search(r"on (http://\S+)", printed)
            link = re.search(r"http://\S+(/first-key\?token=\S+)", printed)
            assert url and link
            yield url[1], link[1]
        finally:
            process.terminate()


def main(folder: Path) -> Walk:
    """Takes the pictures. Returns the walk."""
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as place,
        served(Path(place) / "help-desk") as (url, link),
        sync_playwright() as play,
    ):
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        walk = Walk(browser, url, link, folder)
        walk.whole()
        browser.close()
    return walk


if __name__ == "__main__":
    main(Path(sys.argv[1]))
