"""The first minutes on the pages: the link that makes the first key, who cannot use it, and the way to a benchmark."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from exam_helpers import surefind
from helpers import Home
from http_helpers import SETTINGS, Served, a_bank, serving
from surefind.base.errors import ForbiddenError, UsageError
from surefind.doors.auth import keys
from surefind.doors.auth.keys import LASTS, FirstKey, Keys, UnwritableError
from surefind.doors.server import create_app
from web_helpers import accessible, browsing, fits, needs_browser, visiting

HTML = {"Accept": "text/html"}
LEGEND = """() => {
  const legend = document.createElement("figcaption");
  legend.className = "small soft";
  legend.innerHTML = 'nDCG@10. <span class="key used">what searches use now</span>';
  document.querySelector("main").append(legend);
  return [legend, legend.firstElementChild].map(part => getComputedStyle(part).fontSize);
}"""


class Link:
    """An open server, and the link that it printed."""

    def __init__(self, client: TestClient, keys: Keys, first: FirstKey) -> None:
        self.client, self.keys, self.first = client, keys, first
        self.path = first.link()
        self.token = self.path.partition("token=")[2]

    def open(self, path: str = "", **headers: str) -> Any:
        return self.client.get(path or self.path, headers=HTML | headers, follow_redirects=False)

    def make(self, token: str = "", name: str = "ada", **headers: str) -> Any:
        form = {"token": token or self.token, "name": name}
        return self.client.post("/first-key", data=form, headers=HTML | headers, follow_redirects=False)


@pytest.fixture
def link(tmp_path: Path) -> Iterator[Link]:
    home = Home(tmp_path, SETTINGS)
    with home.open() as kb:
        first = FirstKey(Keys(kb.data))
        with TestClient(create_app(kb, first_key=first), "http://127.0.0.1:8080") as client:
            yield Link(client, Keys(kb.data), first)


def test_the_link_makes_the_key_of_the_owner_and_signs_in(link: Link) -> None:
    opened = link.open()
    assert opened.status_code == 200 and link.token in opened.text and link.keys.list() == []
    made = link.make()
    (key,) = link.keys.list()
    assert (key.name, key.scopes, key.groups) == ("ada", ("admin",), ("*",))
    text = re.search(r"sf_\w{12}_[\w-]{43}", made.text)
    assert made.status_code == 200 and text and link.keys.caller(text[0]).name == "ada"
    cookie = made.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=lax" in cookie
    assert link.open("/settings").status_code == 200, "the visitor is signed in"
    link.client.cookies.clear()
    assert link.open("/settings").headers["location"].startswith("/sign-in"), "and everybody else needs a key"


def test_the_link_works_once(link: Link) -> None:
    link.make()
    assert link.open().status_code == 403 and link.make(name="eve").status_code == 403
    link.client.cookies.clear()
    assert link.open().headers["location"].startswith("/sign-in")
    assert link.make(name="eve").headers["location"].startswith("/sign-in")
    assert [key.name for key in link.keys.list()] == ["ada"]


@pytest.mark.parametrize("token", ["x", "é" * 43, "\x00", "A" * 43, "x" * 200])
def test_a_wrong_token_makes_no_key(link: Link, token: str) -> None:
    assert link.make(token).status_code == 403
    assert link.client.get("/first-key", params={"token": token}, headers=HTML).status_code == 403
    assert not link.keys.any()


def test_no_token_and_a_part_of_one_make_no_key(link: Link) -> None:
    for token in (link.token[:-1], link.token + "A", link.token.swapcase()):
        assert link.make(token).status_code == 403
    bare = link.open("/first-key")
    assert bare.status_code == 403 and "Open the link that the server printed" in bare.text
    assert link.client.post("/first-key", data={"name": "eve"}, headers=HTML).status_code == 403
    assert not link.keys.any()


def test_without_a_printed_link_no_token_is_right(tmp_path: Path) -> None:
    first = FirstKey(Keys(tmp_path))
    for token in ("", "x"):
        with pytest.raises(ForbiddenError):
            first.create(token, "eve")


def test_the_link_ends(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(keys.time, "monotonic", lambda: now + LASTS - 5)
    assert link.open().status_code == 200
    monkeypatch.setattr(keys.time, "monotonic", lambda: now + LASTS + 5)
    late = link.open()
    assert late.status_code == 403 and "24 hours" in late.text and "Start the server again" in late.text
    assert link.make().status_code == 403 and not link.keys.any()


def test_a_key_that_the_command_line_makes_meanwhile_ends_the_link(link: Link) -> None:
    assert link.open().status_code == 200
    link.keys.create("cli", ["read"])
    assert link.make().headers["location"].startswith("/sign-in")
    with pytest.raises(ForbiddenError, match="There is a key already"):
        link.first.create(link.token, "eve")
    link.keys.revoke("cli")
    assert link.make().headers["location"].startswith("/sign-in"), "a revoked key counts: the server was closed"
    assert [key.name for key in link.keys.list()] == ["cli"]


def test_a_key_made_between_the_check_and_the_writing_wins(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys are looked at again under the lock of their file."""
    link.keys.create("cli", ["read"])
    monkeypatch.setattr(Keys, "any", lambda _: False)
    with pytest.raises(UsageError, match="There is a key already"):
        link.first.create(link.token, "eve")
    assert link.make().status_code == 400
    assert [key.name for key in link.keys.list()] == ["cli"]


def test_the_link_answers_to_no_other_host_and_no_other_site(link: Link) -> None:
    assert link.open(Host="evil.example").status_code == 421 and link.make(Host="evil.example").status_code == 421
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        assert link.make(**headers).status_code == 403
    assert not link.keys.any()
    opened = link.open()
    assert opened.headers["x-frame-options"] == "DENY" and opened.headers["referrer-policy"] == "no-referrer"
    assert opened.headers["cache-control"] == "no-store"


def test_the_token_is_compared_in_constant_time_and_kept_as_a_hash(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = list[tuple[int, int]]()
    same = keys.hmac.compare_digest

    def counted(a: str, b: str) -> bool:
        compared.append((len(a), len(b)))
        return bool(same(a, b))

    monkeypatch.setattr(keys.hmac, "compare_digest", counted)
    for token in ("", "x", link.token):
        link.open(f"/first-key?token={token}")
    assert compared == [(64, 64)] * 3
    assert link.token not in str(vars(link.first))


def test_a_wrong_name_leaves_the_link_as_it_is(link: Link) -> None:
    assert link.make(name=" ").status_code == 400 and link.make(name="oidc:eve").status_code == 400
    assert link.make().status_code == 200


def test_where_nothing_can_be_written_one_sentence_says_so(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "/srv/secret/.surefind")

    with monkeypatch.context() as patch:
        patch.setattr("surefind.doors.auth.keys.private_folder", refused)
        answer = link.make()
        assert answer.status_code == 507 and "The key cannot be made: the server cannot write" in answer.text
        assert "/srv/secret" not in answer.text
        with pytest.raises(UnwritableError):
            link.first.create(link.token, "ada")
    monkeypatch.setattr("surefind.doors.auth.sessions.private_folder", refused)
    made = link.make()
    assert made.status_code == 200 and re.search(r"sf_\w{12}_", made.text), "a key that was made is shown"
    assert "set-cookie" not in made.headers


# ---------------------------------------------------------------- the program


def printed_link(server: Served) -> str:
    found = re.search(r"(http://\S+)(/first-key\?token=\S+)", server.log.read_text())
    assert found and found[1] == server.url, server.log.read_text()
    return found[2]


def test_serve_prints_the_link_only_while_there_is_no_key(tmp_path: Path) -> None:
    home = a_bank(Home(tmp_path))
    with serving(home.folder) as server, server.client() as http:
        path = printed_link(server)
        assert http.get(path).status_code == 200
        assert http.get("/v1/search", params={"query": "wire"}).status_code == 200, "the server is open until then"
        token = path.partition("token=")[2]
        assert http.post("/first-key", data={"token": token, "name": "ada"}).status_code == 200
        assert httpx.get(f"{server.url}/v1/search", params={"query": "wire"}, trust_env=False).status_code == 401
    with serving(home.folder) as server:
        assert "first-key" not in server.log.read_text() and "need an API key" in server.log.read_text()


def test_serve_starts_on_a_new_knowledge_base_and_not_elsewhere(tmp_path: Path) -> None:
    ran = surefind("serve", "--port", "0", kb=tmp_path)
    assert ran.code == 3 and "There is no knowledge base" in ran.err
    assert surefind("init", kb=tmp_path).code == 0
    with serving(tmp_path) as server, server.client() as http:
        for path in ("/", "/ask?query=x", "/?query=x", "/documents", "/documents?find=x", "/drafts", "/drafts/new",
                     "/label", "/reports", "/graph", "/settings"):  # fmt: skip
            assert http.get(path, headers=HTML).status_code == 200, path
        assert "Upload a document" in http.get("/", headers=HTML).text
        assert http.get("/v1/search", params={"query": "wire"}).status_code == 503


def test_only_an_admin_names_a_folder_of_the_server(tmp_path: Path) -> None:
    home = a_bank(Home(tmp_path))
    home.write("more/new.md", "# Zebra\n\nThe zebra is striped.\n")
    with home.open() as kb:
        keys = {scope: Keys(kb.data).create(scope, [scope], ["*"])[1] for scope in ("write", "review", "admin")}
    with serving(home.folder) as server:
        for scope in ("write", "review"):
            with server.client(keys[scope]) as http:
                assert http.post("/settings/sync", data={"folder": "more"}).status_code == 403
                assert http.post("/v1/jobs", json={"kind": "sync", "folder": "more"}).status_code == 422
                assert "Read the folder" not in http.get("/documents?in=none", headers=HTML).text
        with server.client(keys["admin"]) as http:
            job = http.post("/settings/sync", data={"folder": "more"}).headers["location"]
            ended = _ended(http, job)
            assert ended["state"] == "finished", ended
            found = http.get("/v1/search", params={"query": "zebra striped"}).json()["hits"]
            assert found[0]["document"] == "new.md"
            missing = http.post("/settings/sync", data={"folder": "nowhere"}).headers["location"]
            assert _ended(http, missing)["state"] == "failed"
            assert re.search(r'href="/[^"]*">Go back</a>', http.get(missing, headers=HTML).text), "to try again"


def _ended(http: httpx.Client, page: str) -> dict[str, Any]:
    for _ in range(400):
        job: dict[str, Any] = http.get(f"/v1{page}").json()
        if job["state"] != "running":
            return job
        time.sleep(0.05)
    raise AssertionError(job)


@needs_browser
@pytest.mark.parametrize("width", [1280, 360])
def test_from_nothing_to_a_search_and_a_benchmark(tmp_path: Path, width: int) -> None:
    home = Home(tmp_path, SETTINGS)
    for n in range(12):
        home.write(f"docs/{n}.md", f"# Wire {n}\n\nThe cutoff of wire{n} is {n} pm, says the desk of town{n}.\n")
    view = {"width": width, "height": 800}
    with serving(home.folder) as server, browsing() as browser, visiting(browser, server.url, viewport=view) as page:
        page.goto("/")
        assert page.get_by_role("link", name="Upload a document").is_visible()
        page.goto(printed_link(server))
        fits(page), accessible(page)
        page.get_by_label("Your name").fill("ada")
        page.get_by_role("button", name="Make the key").click()
        page.get_by_text("only time that the key is shown").wait_for()
        fits(page), accessible(page)
        page.get_by_role("link", name="Go on to the documents").click()
        fits(page), accessible(page)
        page.get_by_label("A folder on this server").fill("docs")
        page.get_by_role("button", name="Read the folder").click()
        page.get_by_role("link", name="See the result").click(timeout=30_000)
        page.locator(".examples a").first.click()
        page.locator(".hit").first.wait_for()
        page.goto("/")
        page.get_by_role("link", name="Run the first benchmark").click()
        page.get_by_role("button", name="Start the benchmark").wait_for()


@needs_browser
def test_a_first_upload_is_published_and_found(tmp_path: Path) -> None:
    home = Home(tmp_path, SETTINGS)
    with serving(home.folder) as server, browsing() as browser, visiting(browser, server.url) as page:
        page.goto("/")
        page.get_by_role("link", name="Upload a document").click()
        page.locator("#file").set_input_files(
            {"name": "leave.md", "mimeType": "text/markdown", "buffer": b"# Leave\n\nParental leave is 14 weeks.\n"}
        )
        page.get_by_role("button", name="Upload").click()
        page.get_by_role("button", name="Publish").click()
        page.get_by_role("link", name="See the result").click(timeout=30_000)
        page.goto("/?query=parental+leave")
        assert "14 weeks" in page.locator(".hit").first.inner_text()


@needs_browser
def test_five_hits_fit_a_screen_and_all_pages_have_one_width_and_a_title(tmp_path: Path) -> None:
    home = Home(tmp_path, SETTINGS.replace("tokens=60", "tokens=200"))
    told = " ".join(f"The cutoff of wire transfers to town number {n} is at noon on working days." for n in range(9))
    for n in range(8):
        home.write(f"docs/{n}.md", f"---\ndesk: {'ab'[n % 2]}\n---\n# Wire {n}\n\n{told}\n")
    home.sync("docs")
    from playwright.sync_api import expect

    view = {"width": 1280, "height": 900}
    with serving(home.folder) as server, browsing() as browser, visiting(browser, server.url, viewport=view) as page:
        page.goto("/?query=cutoff+of+wire+transfers")
        page.locator(".sure").first.wait_for()
        bottoms = page.locator(".hit").evaluate_all("hits => hits.map(hit => hit.getBoundingClientRect().bottom)")
        assert bottoms[4] <= 900, bottoms
        assert page.title() == "cutoff of wire transfers – Search – Surefind"
        page.get_by_label("Question").fill("noon")
        expect(page).to_have_title("noon – Search – Surefind")
        edges, brand = set(), "document.querySelector('.brand').getBoundingClientRect().left"
        for path, title in (
            ("/", "Search"), ("/ask?query=noon", "noon – Ask"), ("/documents", "Documents"), ("/drafts", "Drafts"),
            ("/documents/1.md", "Wire 1 – Documents"), ("/drafts/new", "Upload a document – Drafts"),
            ("/label", "Label"), ("/reports", "Reports"), ("/settings", "Settings"), ("/sign-in", "Sign in"),
            ("/graph", "Graph"),
        ):  # fmt: skip
            page.set_viewport_size({"width": 1900, "height": 900})
            page.goto(path)
            assert page.title() == f"{title} – Surefind", path
            box = page.locator("main").bounding_box()
            assert box
            edges.add((box["x"], box["width"]))
            inside = page.evaluate("parseFloat(getComputedStyle(document.querySelector('main')).paddingLeft)")
            assert abs(page.evaluate(brand) - box["x"] - inside) < 1, "the menu begins where the page does"
        assert len(edges) == 1, edges
        sizes = page.evaluate(LEGEND)
        assert sizes[0] == sizes[1], "the legend of a chart has one size"
