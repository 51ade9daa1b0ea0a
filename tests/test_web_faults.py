"""What pages answer in odd situations: somebody is faster, a file is old, an address is broken, a list is long. The
application runs in this process, so that a test can act between two steps of a request."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from helpers import Home
from http_helpers import a_bank
from surefind.desk.store import Desk
from surefind.desk.values import Revision
from surefind.kb import KnowledgeBase
from surefind.serve.auth.keys import Keys
from surefind.serve.editing import save_settings, shown_settings
from surefind.serve.http.app import create_app

PEOPLE = {
    "ada": ["read", "write", "review"],
    "bob": ["read", "write", "review"],
    "writer": ["read", "write"],
    "admin": ["admin"],
}


@dataclass
class Site:
    """An application and the people who use it."""

    client: TestClient
    kb: KnowledgeBase
    keys: dict[str, str]

    def get(self, who: str, path: str, **headers: str) -> httpx.Response:
        return self.client.get(path, headers=self._headers(who, headers), follow_redirects=False)

    def post(self, who: str, path: str, form: Any = None, **headers: str) -> httpx.Response:
        return self.client.post(path, data=form or {}, headers=self._headers(who, headers), follow_redirects=False)

    def _headers(self, who: str, more: dict[str, str]) -> dict[str, str]:
        return {"Accept": "text/html", "Authorization": f"Bearer {self.keys[who]}", **more}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = a_bank(Home(tmp_path_factory.mktemp("bank")))
    made = Keys(home.folder / ".surefind")
    keys = {name: made.create(name, scopes, ["*"] if name == "admin" else [])[1] for name, scopes in PEOPLE.items()}
    with home.open() as kb, TestClient(create_app(kb)) as client:
        yield Site(client, kb, keys)


def _draft(site: Site, document: str, text: str = "one\n", author: str = "ada", name: str = "x.md") -> int:
    return site.kb.draft_of(name, text.encode(), document, author).number


# ---------------------------------------------------------------- somebody else is faster


def test_page_of_a_conflict_saves_on_the_revision_that_it_shows(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    number = _draft(site, "faster.md")
    site.kb.save(number, 1, b"two\n", "bob")
    read, saved = Desk.revision, list[int]()

    def save_after_reading(desk: Desk, of: int, revision: int | None = None) -> Revision:
        found = read(desk, of, revision)
        if revision is None and not saved:
            saved.append(site.kb.save(of, 2, b"three\n", "bob").revision)
        return found

    monkeypatch.setattr(Desk, "revision", save_after_reading)
    page = site.post("ada", f"/drafts/{number}/save", {"revision": "1", "text": "mine"})
    assert page.status_code == 409 and saved == [3] and "Revision 2 of bob" in page.text
    (revision,) = re.findall(r'name="revision" value="(\d+)"', page.text)
    again = site.post("ada", f"/drafts/{number}/save", {"revision": revision, "text": "mine"})
    assert again.status_code == 409 and "three" in again.text


def test_text_keeps_the_name_of_its_file_after_a_conflict(site: Site) -> None:
    number = _draft(site, "named.md", "# one\n", name="named.md")
    site.kb.save(number, 1, b"<p>two</p>", "bob", "page.html")
    page = site.post("ada", f"/drafts/{number}/save", {"revision": "1", "text": "# mine"})
    form = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.text))
    assert site.post("ada", f"/drafts/{number}/save", {**form, "text": "# mine"}).status_code == 303
    assert site.kb.desk.revision(number).name == "named.md"


def test_revision_that_the_reviewer_has_not_seen_is_not_published(site: Site) -> None:
    number = _draft(site, "unseen.md", author="writer")
    site.kb.review(number, author="writer")
    site.kb.approve(number, 1, "bob")
    page = site.get("ada", f"/drafts/{number}").text
    (form,) = re.findall(r'action="/drafts/\d+/publish">(.*?)</form>', page)
    (seen,) = re.findall(r'name="revision" value="(\d+)"', form)
    site.kb.save(number, 1, b"two\n", "writer")
    site.kb.approve(number, 2, "bob")
    late = site.post("ada", f"/drafts/{number}/publish", {"revision": seen})
    assert late.status_code == 409 and "you read revision 1" in late.text
    key = {"Authorization": f"Bearer {site.keys['ada']}"}
    for path, body in (
        (f"/v1/drafts/{number}/publish", {"revision": 1}),
        ("/v1/jobs", {"kind": "publish", "version": number, "revision": 1}),
    ):
        refused = site.client.post(path, json=body, headers=key)
        assert (refused.status_code, refused.json()["newer"]) == (409, 2)
    job = site.client.post(f"/v1/drafts/{number}/publish", json={"revision": 2}, headers=key).json()["id"]
    assert _ended(site, "ada", job)["state"] == "finished"


def _ended(site: Site, who: str, job: str) -> dict[str, Any]:
    for _ in range(600):
        found: dict[str, Any] = site.get(who, f"/v1/jobs/{job}").json()
        if found["ended"]:
            return found
        time.sleep(0.05)
    raise AssertionError("the job did not end")


@pytest.mark.parametrize("path", ["/settings", "/reports"])
def test_change_that_the_admin_has_not_seen_is_not_undone(site: Site, path: str) -> None:
    """Another admin saves while the page is open: its button undoes the change that it names, and no other."""
    file = site.kb.folder / "surefind.toml"
    before = file.read_text()
    for note in ("# first\n", "# first\n# second\n"):
        save_settings(site.kb.folder, before + note, shown_settings(site.kb.folder).mark)
        if note == "# first\n":
            page = site.get("admin", path).text
            (form,) = re.findall(rf'action="{path}/undo">(.*?)</form>', page)
            old = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))
    late = site.post("admin", f"{path}/undo", old)
    assert late.status_code == 400 and "changed since you opened the page" in late.text
    assert file.read_text().endswith("# second\n")
    for _ in range(2):
        (mark,) = re.findall(
            rf'action="{path}/undo"><input type="hidden" name="mark" value="(\w+)"', site.get("admin", path).text
        )
        assert site.post("admin", f"{path}/undo", {"mark": mark}).status_code == 303
    assert file.read_text() == before
