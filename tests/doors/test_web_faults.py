"""What pages answer in odd situations: somebody is faster, a file is old, an address is broken, a list is long. The
application runs in this process, so that a test can act between two steps of a request."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from cases import each
from helpers import Home
from http_helpers import SETTINGS, a_bank
from surefind.base.access import Access
from surefind.base.disk.sealed import sealed
from surefind.doors.auth.keys import Keys
from surefind.doors.server import create_app
from surefind.doors.web import drafts
from surefind.engine.store.lock import growing_lock
from surefind.kb import KnowledgeBase
from surefind.kb.adoption import save_settings, shown_settings
from surefind.kb.drafts.review import comment, comments
from surefind.kb.drafts.store import Content, DraftStore
from surefind.kb.drafts.values import Base, Revision
from surefind.lab.exam.keeping import keep
from surefind.lab.exam.store import ExamStore

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
    return site.kb.drafts.add_bytes(name, text.encode(), document, author).number


def _hidden(page: str, action: str) -> dict[str, str]:
    """The hidden fields of a form."""
    (form,) = re.findall(rf'action="{action}"[^>]*>(.*?)</form>', page, re.DOTALL)
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))


# ---------------------------------------------------------------- somebody else is faster


def test_page_of_a_conflict_saves_on_the_revision_that_it_shows(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    number = _draft(site, "faster.md")
    site.kb.drafts.save(number, 1, b"two\n", "bob")
    read, saved = DraftStore.revision, list[int]()

    def save_after_reading(desk: DraftStore, of: int, revision: int | None = None) -> Revision:
        found = read(desk, of, revision)
        if revision is None and not saved:
            saved.append(site.kb.drafts.save(of, 2, b"three\n", "bob").revision)
        return found

    monkeypatch.setattr(DraftStore, "revision", save_after_reading)
    page = site.post("ada", f"/drafts/{number}/save", {"revision": "1", "text": "mine"})
    assert page.status_code == 409 and saved == [3] and "Revision 2 of bob" in page.text
    form = _hidden(page.text, f"/drafts/{number}/save")
    again = site.post("ada", f"/drafts/{number}/save", {**form, "text": "mine"})
    assert again.status_code == 409 and "three" in again.text


def test_text_keeps_the_name_of_its_file_after_a_conflict(site: Site) -> None:
    number = _draft(site, "named.md", "# one\n", name="named.md")
    site.kb.drafts.save(number, 1, b"<p>two</p>", "bob", "page.html")
    page = site.post("ada", f"/drafts/{number}/save", {"revision": "1", "text": "# mine"})
    form = _hidden(page.text, f"/drafts/{number}/save")
    assert site.post("ada", f"/drafts/{number}/save", {**form, "text": "# mine"}).status_code == 303
    assert site.kb.drafts.store.revision(number).name == "named.md"


def test_revision_that_the_reviewer_has_not_seen_is_not_published(site: Site) -> None:
    number = _draft(site, "unseen.md", author="writer")
    site.kb.drafts.review(number, author="writer")
    site.kb.drafts.approve(number, 1, "bob")
    seen = _hidden(site.get("ada", f"/drafts/{number}").text, f"/drafts/{number}/publish")
    site.kb.drafts.save(number, 1, b"two\n", "writer")
    site.kb.drafts.approve(number, 2, "bob")
    late = site.post("ada", f"/drafts/{number}/publish", seen)
    assert late.status_code == 409 and "you read revision 1" in late.text
    key = {"Authorization": f"Bearer {site.keys['ada']}"}
    refused = site.client.post(f"/v1/drafts/{number}/publish", json={"revision": 1}, headers=key)
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


@each("path", ["/settings", "/reports"])
def test_change_that_the_admin_has_not_seen_is_not_undone(site: Site, path: str) -> None:
    """Another admin saves while the page is open: its button undoes the change that it names, and no other."""
    file = site.kb.folder / "surefind.toml"
    before = file.read_text()
    for note in ("# first\n", "# first\n# second\n"):
        save_settings(site.kb.folder, before + note, shown_settings(site.kb.folder).mark)
        if note == "# first\n":
            old = _hidden(site.get("admin", path).text, f"{path}/undo")
    late = site.post("admin", f"{path}/undo", old)
    assert late.status_code == 400 and "changed since you opened the page" in late.text
    assert file.read_text().endswith("# second\n")
    now = _hidden(site.get("admin", path).text, f"{path}/undo")
    assert site.post("admin", f"{path}/undo", now).status_code == 303
    assert file.read_text() == before + "# first\n"
    assert f"{path}/undo" not in site.get("admin", path).text


def test_questions_are_not_lost_to_a_session_that_grows_the_exam(site: Site) -> None:
    """A session writes all candidates that it knows, so nobody else may add any meanwhile."""
    store = ExamStore(site.kb.data / "exams")
    form = {"name": "grown", "questions": "When is the second cutoff of wires?"}
    store.candidates("grown").collect(["When is the first cutoff of wires?"], "test")
    with growing_lock(site.kb.data, "grown"):
        session = store.candidates("grown")
        refused = site.post("ada", "/label", form)
        session.collect(["When is the first cutoff of wires?"], "test")
    assert refused.status_code == 409 and "Try again" in refused.text
    assert site.post("ada", "/label", form).status_code == 303
    assert [one.text for one in store.candidates("grown").all()][1:] == [form["questions"]]
    assert site.post("ada", "/label", {**form, "name": "../x"}).status_code == 400


# ---------------------------------------------------------------- odd requests, old files


def test_line_is_commented_on_without_a_script(site: Site) -> None:
    number = _draft(site, "said.md", "one\ntwo\n")
    asked = site.get("ada", f"/drafts/{number}/comment?revision=1&line=2").headers["location"]
    page = site.get("ada", asked.partition("#")[0])
    assert page.status_code == 200 and "Comment on line 2" in page.text
    form = _hidden(page.text, f'/drafts/{number}/comments" id="say')
    assert site.post("ada", f"/drafts/{number}/comments", {**form, "text": "why?"}).status_code == 303
    assert [one.line for one in comments(site.kb.drafts.store, number)] == [2]


def test_report_of_another_version_is_named(site: Site) -> None:
    folder = site.kb.data / "reports" / "old"
    folder.mkdir(parents=True)
    (folder / "report.json").write_text(json.dumps(sealed({"surefind": "0", "rows": []})))
    says = "reports/old/report.json is not a report of this version of surefind bench"
    assert says in site.get("admin", "/reports").text
    for path in ("", "/full"):
        page = site.get("admin", f"/reports/benchmark/old{path}")
        assert page.status_code == 400 and says in page.text, path


@each("odd", ["//[x", "/\\x", "https://evil.example/", "/" + "x" * 5_000, "\x00"])
def test_odd_address_after_signing_in_is_the_first_page(site: Site, odd: str) -> None:
    page = site.client.get("/sign-in", params={"next": odd}, headers={"Accept": "text/html"})
    assert page.status_code == 200 and 'name="next" value="/"' in page.text
    done = site.client.post("/sign-in", data={"key": site.keys["ada"], "next": odd}, follow_redirects=False)
    site.client.cookies.clear()
    assert done.status_code == 303 and done.headers["location"] == "/"


@each("days", ["²", "soon", "-1", "1e3"])
def test_odd_number_of_days_is_refused(site: Site, days: str) -> None:
    answer = site.post("admin", "/settings/keys", {"name": "odd", "scope": "read", "days": days})
    assert answer.status_code == 400 and "whole number" in answer.text


@each("name", ["n" * 300, "n" + "é" * 150])
def test_name_of_an_exam_that_no_file_can_have_is_refused(site: Site, name: str) -> None:
    key = {"Authorization": f"Bearer {site.keys['ada']}"}
    hit = site.client.get("/v1/search", params={"query": "cutoff of wire7"}, headers=key).json()["hits"][0]
    body = {"query": "cutoff of wire7", "id": hit["id"]}
    answer = site.client.post(f"/v1/exams/{name}/questions", json=body, headers=key)
    assert answer.status_code == 400 and "shorter" in answer.json()["detail"]
    assert site.get("ada", f"/label/{name}").status_code == 404
    assert site.post("ada", f"/label/{name}/pool").status_code == 404


@each("path", ["/?query=wire7", "/documents?find=wire", "/drafts/{}/chunks"])
def test_history_of_a_browser_gets_the_whole_page(site: Site, path: str) -> None:
    """htmx asks again for a page that it does not remember any more, with a header that says so."""
    path = path.format(_draft(site, "history.md"))
    part = site.get("ada", path, **{"HX-Request": "true"})
    whole = site.get("ada", path, **{"HX-Request": "true", "HX-History-Restore-Request": "true"})
    assert "<header" not in part.text and "<header" in whole.text
    numbers = re.compile(r"[\d.]+")  # times differ
    assert numbers.sub("", whole.text) == numbers.sub("", site.get("ada", path).text)
    assert "HX-History-Restore-Request" in whole.headers["vary"]


def test_history_of_a_browser_shows_errors_as_whole_pages(site: Site) -> None:
    again = {"HX-Request": "true", "HX-History-Restore-Request": "true"}
    assert "<header" in site.get("ada", "/documents/nonesuch.md", **again).text
    out = site.client.get("/drafts", headers={"Accept": "text/html", **again}, follow_redirects=False)
    assert out.status_code == 303 and out.headers["location"].startswith("/sign-in")


@each("name", ["page.html", "page.md"])
def test_author_comments_on_every_line_that_has_a_link(site: Site, name: str) -> None:
    """The text of a draft has more lines than its file: its page shows the metadata of the document, and HTML as
    text."""
    data = "<h1>Wires</h1><p>The cutoff</p><p>is noon.</p>" if name.endswith("html") else "# Wires\n\nThe cutoff.\n"
    number = site.kb.drafts.add_bytes(name, data.encode(), "wires/05.md", "writer", keep_metadata=True).number
    lines = re.findall(r"/comment\?revision=1&amp;line=(\d+)\"", site.get("writer", f"/drafts/{number}").text)
    assert len(lines) > 3
    for line in dict.fromkeys(lines):
        form = {"revision": "1", "line": line, "text": "why?"}
        assert site.post("writer", f"/drafts/{number}/comments", form).status_code == 303, line


def test_exam_that_is_made_later_is_asked(site: Site) -> None:
    number = _draft(site, "wires/08.md", "The cutoff of wire8 is never.\n")
    assert "There is no exam yet" in site.get("ada", f"/drafts/{number}/questions").text
    hit = next(iter(site.kb.search("cutoff of wire8", Access.public()).hits))
    keep(site.kb, "When is the cutoff of wire8?", hit.id, Access.public())
    asked = site.get("ada", f"/drafts/{number}/questions").text
    assert "There is no exam yet" not in asked and "1 question" in asked
    other = next(iter(site.kb.search("cutoff of wire9", Access.public()).hits))
    keep(site.kb, "When is the cutoff of wire9?", other.id, Access.public())
    assert "2 questions" in site.get("ada", f"/drafts/{number}/questions").text


def test_search_when_every_document_is_retired_says_so(home: Home) -> None:
    home.configure(SETTINGS)
    home.write("docs/a.md", "alpha")
    home.sync("docs")
    with home.open() as kb:
        kb.retire("a.md")
        with TestClient(create_app(kb), base_url="http://localhost") as client:
            page = client.get("/?query=alpha", headers={"Accept": "text/html"})
            assert page.status_code == 200 and "There is nothing to search yet" in page.text
            found = client.get("/v1/search?query=alpha")
            assert found.status_code == 503 and "no documents" in found.json()["detail"]


# ---------------------------------------------------------------- long lists, long texts


@each("who", ["writer", "ada"])
def test_many_drafts_come_in_pages(site: Site, monkeypatch: pytest.MonkeyPatch, who: str) -> None:
    """Authors and reviewers find every draft once, whatever its state, and no page looks at all of them."""
    asked = list[int]()
    monkeypatch.setattr(drafts, "sees", lambda service, caller, draft: asked.append(draft.number) or True)
    text = Content("many.md", b"many\n", "many\n", "Many", (), 5)
    made = [site.kb.drafts.store.add(f"many/{who}/{n}.md", text, "writer", Base()).number for n in range(220)]
    for number in made[::2]:
        site.kb.drafts.review(number, author="writer")
    found, paths = list[int](), ["/drafts"]
    for path in paths:
        asked.clear()
        page = site.get(who, path).text
        found += map(int, re.findall(r'<li><a href="/drafts/(\d+)"', page))
        paths += re.findall(r'href="(/drafts\?list=[^"]+)"', page.replace("&amp;", "&"))
        assert len(asked) <= 330 and len(page.encode()) < 150_000, path
    assert len(paths) > 2 and sorted(one for one in found if one in made) == made


def test_long_change_comes_in_pages(site: Site) -> None:
    """Every line is on one of the pages, a comment leads to the page of its line, and no page is large."""
    text = "".join(f"Line {n} of a long draft.\n" for n in range(1, 3001)) + "x" * 300_000 + "\n"
    number = _draft(site, "long.md", text)
    comment(site.kb.drafts.store, number, 1, 2500, "ada", "Is this so?")
    shown, paths = list[str](), [f"/drafts/{number}"]
    for path in paths:
        page = site.get("ada", path)
        shown += re.findall(r"Line (\d+) of a long draft", page.text)
        paths += re.findall(r'href="([^"#]+)#changes">Later', page.text.replace("&amp;", "&"))
        assert len(page.content) < 300_000 and "not shown" not in page.text, path
    assert [int(one) for one in shown] == list(range(1, 3001)) and len(paths) == 4
    (there,) = re.findall(r'href="([^"]+)#L2500"', site.get("ada", paths[0]).text.replace("&amp;", "&"))
    page = site.get("ada", there).text
    assert 'id="L2500"' in page and "Is this so?" in page
    assert "Comment on line 2600" in site.get("ada", f"/drafts/{number}?revision=1&line=2600").text
    form = {"revision": "1", "line": "2700", "text": "why?"}
    after = site.post("ada", f"/drafts/{number}/comments", form).headers["location"]
    assert 'id="L2700"' in site.get("ada", after.partition("#")[0]).text


def test_form_of_revisions_compares_with_what_is_published(site: Site) -> None:
    number = _draft(site, "compared.md")
    site.kb.drafts.save(number, 1, b"two\n", "ada")
    page = site.get("ada", f"/drafts/{number}?revision=2&since=1").text
    assert '<select name="since"><option value="">' in page and "Changes since revision 1" in page
    assert "A new document" in site.get("ada", f"/drafts/{number}?revision=2&since=").text
    assert site.get("ada", f"/drafts/{number}?since=x").status_code == 422


def test_long_change_of_a_document_comes_in_pages(site: Site) -> None:
    text = "".join(f"Line {n} of a long version.\n" for n in range(1, 2001))
    site.kb.drafts.publish(_draft(site, "wires/06.md", text))
    before, after = sorted(one.number for one in site.kb.history("wires/06.md"))
    shown, paths = list[str](), [f"/documents/wires/06.md?before={before}&after={after}"]
    for path in paths:
        page = site.get("ada", path).text
        shown += re.findall(r"Line (\d+) of a long version", page)
        paths += re.findall(r'href="([^"#]+)#text">Later', page.replace("&amp;", "&"))
    assert [int(one) for one in shown] == list(range(1, 2001)) and len(paths) == 3
