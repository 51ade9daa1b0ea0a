"""The pages of documents and drafts: a real server, driven by a real browser and by a plain client."""

from __future__ import annotations

import html
import re
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

import httpx
import pytest

import real_files
from helpers import Home
from http_helpers import SETTINGS, Rights, Served, a_bank, serving
from web_helpers import accessible, fits, needs_browser, visiting

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HTML = {"Accept": "text/html"}
HOSTILE = "<script>document.title=1</script><img src=x onerror=alert(1)>"
PHONE = {"viewport": {"width": 375, "height": 700}}
EDITOR = "Text, in Markdown"


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("bank"))
    home.write("docs/hostile.md", f"---\ntitle: '{HOSTILE}'\nnote: '{HOSTILE}'\n---\n# {HOSTILE}\n\n{HOSTILE}\n")
    home.write("docs/long.md", f"# {'W' * 300}\n\nThe longwire is at https://example.com/{'x' * 400}\n")
    home.write("docs/rtl.md", "# העברה\n\nמועד אחרון להעברה rtlwire הוא שלוש.\n")
    guide = "# Guide\n\nSome **bold** text about [seven](wires/07.md) and [pay](hr/pay.md).\n\nA guidance word.\n"
    home.write("docs/guide.md", f"---\ntitle: Guide\nkind: manual\n---\n{guide}")
    home.write("docs/huge.md", "# Huge\n\n" + "".join(f"Line {n} of the huge document.\n\n" for n in range(4000)))
    return a_bank(home)


@pytest.fixture(scope="module")
def rights() -> Rights:
    every = ["read", "write", "review"]
    return {
        "ada": (every, []),
        "bob": (every, []),
        "writer": (["read", "write"], []),
        "reader": (["read"], []),
        "hr": (every, ["hr"]),
    }


def _get(server: Served, key: str, path: str) -> httpx.Response:
    with server.client(key) as http:
        return http.get(path, headers=HTML)


def _post(server: Served, key: str, path: str, **form: str) -> httpx.Response:
    with server.client(key) as http:
        return http.post(path, headers=HTML, data=form)


def _made(server: Served, key: str, document: str, text: str) -> int:
    answer = _post(server, key, "/drafts/new", document=document, text=text)
    assert answer.status_code == 303, answer.text
    return int(answer.headers["location"].rpartition("/")[2])


def _searchable(server: Served, key: str, word: str) -> bool:
    with server.client(key) as http:
        return bool(http.get("/v1/search", params={"query": word}).json()["hits"])


# ---------------------------------------------------------------- documents


def test_tree_shows_what_a_visitor_may_read(server: Served, keys: dict[str, str]) -> None:
    top = _get(server, keys["ada"], "/documents").text
    assert "wires/" in top and "hostile.md" in top and "hr/" not in top and "<script>document" not in top
    assert "hr/" in _get(server, keys["hr"], "/documents").text
    inside = _get(server, keys["ada"], "/documents?in=wires").text
    assert "Wire 7" in inside and "hostile.md" not in inside
    assert "There is no document here" in _get(server, keys["ada"], "/documents?in=hr").text
    found = _get(server, keys["ada"], "/documents?find=WIRE+29").text
    assert "Wire 29" in found and "Wire 7" not in found
    assert "zebra" not in top + inside + found
    assert "No document is called that" in _get(server, keys["ada"], "/documents?find=nonesuch").text


def test_document_page_shows_text_metadata_and_who_may_read_it(server: Served, keys: dict[str, str]) -> None:
    page = _get(server, keys["ada"], "/documents/wires/07.md").text
    assert "The cutoff of wire7 is 7 pm." in page and "everybody may read this" in page
    hidden, none = (_get(server, keys["ada"], f"/documents/hr/{name}.md") for name in ("pay", "nonesuch"))
    assert hidden.status_code == none.status_code == 404
    drop = re.compile(r"request \w+|nonesuch|pay")
    assert drop.sub("", hidden.text) == drop.sub("", none.text)
    assert "only hr may read this" in _get(server, keys["hr"], "/documents/hr/pay.md").text
    hostile = _get(server, keys["ada"], "/documents/hostile.md").text
    assert "<script>document" not in hostile and "<img" not in hostile


def test_passage_of_a_hit_is_marked(server: Served, keys: dict[str, str]) -> None:
    with server.client(keys["ada"]) as http:
        (hit,) = http.get("/v1/search", params={"query": "line 3999 of the huge document", "k": 1}).json()["hits"]
    page = _get(server, keys["ada"], f"/documents/huge.md?passage={hit['id']}&query=line+3999").text
    assert 'id="passage"' in page and 'class="found"' in page and len(page.encode()) < 250_000
    gone = _get(server, keys["ada"], f"/documents/wires/07.md?passage={'0' * 16}")
    assert gone.status_code == 200 and "not in this version" in gone.text


def test_long_documents_come_in_pages(server: Served, keys: dict[str, str]) -> None:
    first = _get(server, keys["ada"], "/documents/huge.md").text
    (later,) = re.findall(r'href="(/documents/huge.md\?line=\d+)#text">Later', first)
    second = _get(server, keys["ada"], later).text
    assert "Line 0 of" in first and "Line 0 of" not in second and "Earlier lines" in second
    assert max(len(first.encode()), len(second.encode())) < 250_000


def test_markdown_is_rendered_and_its_source_is_a_click_away(server: Served, keys: dict[str, str]) -> None:
    page = _get(server, keys["ada"], "/documents/guide.md").text
    assert "<strong>bold</strong>" in page and '<a href="/documents/wires/07.md">' in page
    assert "hr/pay" not in page and '<span class="nowhere">pay</span>' in page
    (source,) = re.findall(r'href="([^"]+)#text">Source', page)
    lines = _get(server, keys["ada"], html.unescape(source)).text
    assert "**bold**" in lines and ">Read</a>" in lines
    assert '<a href="/documents/hr/pay.md">' in _get(server, keys["hr"], "/documents/guide.md").text


def test_line_numbers_are_those_of_the_file(bank: Home, server: Served, keys: dict[str, str]) -> None:
    with server.client(keys["ada"]) as http:
        (hit,) = http.get("/v1/search", params={"query": "guidance word", "k": 1}).json()["hits"]
    wanted = (bank.folder / "docs/guide.md").read_text().split("\n").index("A guidance word.") + 1
    assert hit["lines"][0] <= wanted <= hit["lines"][1]
    page = _get(server, keys["ada"], f"/documents/guide.md?view=source&passage={hit['id']}&query=guidance+word").text
    assert re.search(
        rf'id="passage"><td class="no" id="L{wanted}">{wanted}<td class="code" dir="auto"><mark>A guidance', page
    )


def test_the_editor_shows_a_preview(server: Served, keys: dict[str, str]) -> None:
    text = "---\ntitle: Fees\nacl: [hr]\n---\n# Fees\n\nSee [wires](wires/07.md) **now**. <script>x</script>\r\n"
    shown = _post(server, keys["ada"], "/drafts/preview", document="fees.md", text=text).text
    assert '<a href="/documents/wires/07.md">wires</a> <strong>now</strong>' in shown and "acl" not in shown
    assert "<script>" not in shown and shown.count("Fees") == 1
    wrong = _post(server, keys["ada"], "/drafts/preview", document="../fees.md", text=text).text
    assert 'role="alert"' in wrong and "cannot be called" in wrong
    assert "1 chunk" in _post(server, keys["ada"], "/drafts/chunks", document="fees.md", text=text).text


def test_a_word_file_in_review_is_shown_as_readers_will_see_it(server: Served, keys: dict[str, str]) -> None:
    with server.client(keys["ada"]) as http:
        file = ("handbook.docx", real_files.docx(real_files.handbook))
        made = http.post("/drafts/new", headers=HTML, files={"file": file}, data={"document": "handbook.docx"})
        where = f"{made.headers['location']}/text"
        assert f'href="{where}"' in http.get(made.headers["location"], headers=HTML).text
        part = http.get(where, headers={**HTML, "HX-Request": "true"}).text
        whole = http.get(where, headers=HTML).text
    assert "<article" in part and "<h2" in part and "<table" in part and "<html" not in part
    assert part.strip() in whole and "<html" in whole
    assert _get(server, keys["reader"], where).status_code == 403
    assert _get(server, keys["writer"], where).status_code == 404  # neither an author nor a reviewer


def test_versions_are_compared_and_restored(bank: Home, server: Served, keys: dict[str, str]) -> None:
    with bank.open() as kb:
        old = kb.history("wires/11.md")[0].number
        kb.drafts.publish(
            kb.drafts.add_bytes("x.md", b"# Wire 11\n\nThe cutoff of wire11 is noon.\n", "wires/11.md", "ada").number
        )
        new = kb.history("wires/11.md")[0].number
        hidden = kb.history("hr/pay.md")[0].number
    _wait_for(server, keys["ada"], "/documents/wires/11.md", "is noon")
    page = _get(server, keys["ada"], f"/documents/wires/11.md?before={old}&after={new}").text
    assert "<del>11 pm</del>" in page and "<ins>noon</ins>" in page
    assert _get(server, keys["ada"], f"/documents/wires/11.md?before={hidden}&after={new}").status_code == 404
    assert _post(server, keys["ada"], "/documents/restore", version=str(hidden)).status_code == 404
    made = _post(server, keys["ada"], "/documents/restore", version=str(old))
    assert "The cutoff of wire11 is <ins>11 pm</ins>" in _get(server, keys["ada"], made.headers["location"]).text


def _wait_for(server: Served, key: str, path: str, text: str) -> None:
    for _ in range(200):
        if text in _get(server, key, path).text:
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} does not say {text}")


# ---------------------------------------------------------------- drafts without a browser


def test_hostile_name_and_broken_file_get_the_form_back(server: Served, keys: dict[str, str]) -> None:
    with server.client(keys["ada"]) as http:
        for name, data, says in (
            ("../../x.md", b"text", "plain file name"),
            ("a\\b.md", b"text", "must be a plain file name"),
            ("broken.pdf", b"%PDF-1.7 nothing of a PDF", "broken.pdf"),
            ("empty.md", b"", "Choose a file"),
            ("tool.exe", b"MZ", "No reader can read"),
        ):
            answer = http.post("/drafts/new", headers=HTML, files={"file": (name, data)}, data={"document": "kept.md"})
            assert answer.status_code == 400 and says in answer.text, (name, answer.text[:2000])
            assert 'value="kept.md"' in answer.text and "/tmp" not in answer.text
        answer = http.post("/drafts/new", headers=HTML, files={"file": ("x.md", b"x")}, data={"document": "../x.md"})
        assert answer.status_code == 400 and "cannot be called" in answer.text and "as in hits" in answer.text


@pytest.mark.growth  # it takes 20 s
def test_upload_of_fifty_megabytes(server: Served, keys: dict[str, str]) -> None:
    text = (b"The elephant rule of a large file.\n\n" * 1_400_000)[:50_000_000]
    with server.client(keys["ada"]) as http:
        http.timeout = httpx.Timeout(120)
        made = http.post("/drafts/new", headers=HTML, files={"file": ("large.txt", text)})
        assert made.status_code == 303, made.text[:500]
        page = http.get(made.headers["location"], headers=HTML)
        assert page.status_code == 200 and len(page.content) < 300_000
        assert http.post(f"{made.headers['location']}/do/discard", headers=HTML).status_code == 303
        more = http.post("/drafts/new", headers=HTML, files={"file": ("larger.txt", text + b"x" * 1_000_000)})
        assert more.status_code == 413


def test_second_save_on_a_revision_shows_both_texts(server: Served, keys: dict[str, str]) -> None:
    number = _made(server, keys["ada"], "both.md", "first\n")
    assert _post(server, keys["ada"], f"/drafts/{number}/save", revision="1", text="ada's\n").status_code == 303
    late = _post(server, keys["bob"], f"/drafts/{number}/save", revision="1", text=f"bob's {HOSTILE}\n")
    assert late.status_code == 409
    assert "ada&#39;s" in late.text and "bob&#39;s" in late.text and "<script>document" not in late.text
    again = _post(server, keys["bob"], f"/drafts/{number}/save", revision="2", text="ada's and bob's\n")
    assert again.status_code == 303


def test_text_that_was_edited_before_somebody_published_is_outdated(
    bank: Home, server: Served, keys: dict[str, str]
) -> None:
    form = _get(server, keys["ada"], "/drafts/new?write=1&document=wires/12.md").text
    (base,) = re.findall(r'name="base" value="(\d+)"', form)
    with bank.open() as kb:
        kb.drafts.publish(kb.drafts.add_bytes("x.md", b"Published meanwhile.\n", "wires/12.md", "bob").number)
    _wait_for(server, keys["ada"], "/documents/wires/12.md", "Published meanwhile")
    answer = _post(server, keys["ada"], "/drafts/new", document="wires/12.md", text="Ada's text.\n", base=base)
    page = _get(server, keys["ada"], answer.headers["location"]).text
    assert "was published again since this draft was made" in page
    number = answer.headers["location"].rpartition("/")[2]
    assert _post(server, keys["ada"], f"/drafts/{number}/do/rebase").status_code == 303
    assert "was published again" not in _get(server, keys["ada"], f"/drafts/{number}").text


def test_reviewer_without_rights_sees_and_does_nothing(server: Served, keys: dict[str, str]) -> None:
    number = _made(server, keys["hr"], "hr/plan.md", "---\nacl: [hr]\n---\nThe zebra plan.\n")
    for name in ("bob", "writer"):
        assert "hr/plan.md" not in _get(server, keys[name], "/drafts").text
        for path in ("", "/edit", "/chunks", "/questions", "/comment?revision=1&line=1"):
            assert _get(server, keys[name], f"/drafts/{number}{path}").status_code == 404, path
        forms = {"text": "x", "revision": "1", "line": "1"}
        for path in ("save", "comments", "do/submit", "do/approve", "do/return", "do/rebase", "do/discard", "publish"):
            assert _post(server, keys[name], f"/drafts/{number}/{path}", **forms).status_code in (403, 404), path
    assert _get(server, keys["reader"], "/drafts").status_code == 403
    assert _get(server, "", "/drafts").headers["location"].startswith("/sign-in")
    own = _made(server, keys["writer"], "idea.md", "An idea.\n")
    page = _get(server, keys["writer"], f"/drafts/{own}").text
    assert "Submit for review" in page and ">Publish<" not in page and "Hand back" not in page
    for path in ("do/approve", "do/return", "publish"):
        assert _post(server, keys["writer"], f"/drafts/{own}/{path}", revision="1").status_code == 403


def test_author_of_a_hidden_document_learns_nothing(server: Served, keys: dict[str, str]) -> None:
    pages = []
    for name in ("pay", "free"):
        form = _get(server, keys["writer"], f"/drafts/new?write=1&document=hr/{name}.md").text
        number = _made(server, keys["writer"], f"hr/{name}.md", "My guess.\n")
        page = _get(server, keys["writer"], f"/drafts/{number}").text + form
        page = re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d[\d:+]*", "then", page)  # a minute may end between the two
        assert "then" in page
        pages.append(re.sub(rf"(drafts/|Draft |crumb\">){number}\b", "#", page).replace("free", "pay"))
    assert pages[0] == pages[1] and "zebra" not in pages[0]


# ---------------------------------------------------------------- with a browser


@needs_browser
def test_from_upload_to_search(server: Served, keys: dict[str, str], browser: Browser, tmp_path: object) -> None:
    with visiting(browser, server.url, keys["ada"]) as ada, visiting(browser, server.url, keys["bob"]) as bob:
        ada.goto("/drafts/new")
        file = {"name": "okapi.md", "mimeType": "text/markdown", "buffer": b"# Okapi\n\nThe okapi rule.\n"}
        ada.get_by_label("File", exact=True).set_input_files(file)  # type: ignore[arg-type]
        ada.get_by_label("Document").fill("animals/okapi.md")
        ada.get_by_role("button", name="Upload").click()
        ada.get_by_role("button", name="Submit for review").click()
        ada.get_by_text("You wrote a part of it").wait_for()
        ada.get_by_text("if you work alone").wait_for()
        draft = ada.url
        assert not ada.get_by_role("button", name="Publish").count()

        bob.goto("/drafts")
        bob.get_by_role("link", name="Okapi").click()
        bob.get_by_text("1 chunk").wait_for()
        bob.get_by_role("link", name="Comment on line 3").click()
        bob.locator("#say textarea").fill("Is this so?")
        bob.locator("#say").get_by_role("button", name="Comment").click()
        bob.get_by_text("Is this so?").wait_for()
        _looked_at(bob)
        bob.get_by_role("button", name="Approve revision 1").click()
        bob.get_by_role("button", name="Publish").click()
        assert bob.locator("nav [aria-current]").inner_text() == "Drafts"
        bob.get_by_text("finished", exact=True).wait_for()
        assert _searchable(server, keys["bob"], "okapi"), "what is done can be seen"
        bob.get_by_role("link", name="See the result").click()
        bob.locator("article", has_text="okapi").wait_for()
        bob.goto(draft)
        bob.get_by_text("published revision 1").wait_for()


@needs_browser
def test_two_people_review_each_other_at_once(server: Served, keys: dict[str, str], browser: Browser) -> None:
    """Each edits the other's draft while its author does: nothing is lost, and nobody approves what they wrote."""
    with visiting(browser, server.url, keys["ada"]) as ada, visiting(browser, server.url, keys["bob"]) as bob:
        drafts = [
            _made(server, keys["ada"], "one.md", "Ada's draft.\n"),
            _made(server, keys["bob"], "two.md", "Bob's draft.\n"),
        ]
        for number in drafts:
            for page in (ada, bob):
                page.goto(f"/drafts/{number}/edit")
            _save(ada, "Ada adds.")
            ada.get_by_role("heading", name="History").wait_for()
            _save(bob, "Bob adds.")
            bob.get_by_role("heading", name="Somebody saved meanwhile").wait_for()
            _looked_at(bob)
            mine, theirs = bob.locator("#text").input_value(), bob.locator("#theirs").input_value()
            assert "Bob adds." in mine and "Ada adds." in theirs
            bob.locator("#text").fill(theirs + "Bob adds.\n")
            bob.get_by_role("button", name="Save your text").click()
            bob.get_by_role("button", name="Submit for review").click()
            for page in (ada, bob):
                page.goto(f"/drafts/{number}")
                assert not page.get_by_role("button", name="Approve").count(), "both wrote a part"
                assert "Ada adds." in page.locator(".diff").inner_text()
                assert "Bob adds." in page.locator(".diff").inner_text()


def _save(page: Page, more: str) -> None:
    box = page.get_by_label(EDITOR)
    box.fill(f"{box.input_value()}{more}\n")
    page.get_by_role("button", name="Save").click()


def _looked_at(page: Page) -> None:
    accessible(page)
    fits(page)


@needs_browser
def test_folders_open_in_place_and_the_filter_follows_the_keys(
    server: Served, keys: dict[str, str], browser: Browser
) -> None:
    with visiting(browser, server.url, keys["ada"]) as page:
        page.goto("/documents")
        page.get_by_text("wires/").click()
        page.get_by_role("link", name="Wire 7", exact=True).wait_for()
        _looked_at(page)
        page.get_by_label("Filter by name").press_sequentially("wires/08")
        page.get_by_text("1 document").wait_for()
        page.get_by_role("link", name="Wire 8", exact=True).click()
        page.get_by_text("The cutoff of wire8").wait_for()
        _looked_at(page)


@needs_browser
@pytest.mark.parametrize("look", [{"color_scheme": "dark"}, PHONE], ids=["dark", "phone"])
def test_pages_fit_and_are_accessible(
    server: Served, keys: dict[str, str], browser: Browser, look: dict[str, object]
) -> None:
    number = _made(server, keys["ada"], "long/" + "n" * 200 + ".md", f"# {'W' * 300}\n\n{'x' * 500} {HOSTILE}\n")
    with visiting(browser, server.url, keys["ada"], **look) as page:
        for path in (
            "/documents", "/documents/hostile.md", "/documents/long.md", "/documents/rtl.md", "/drafts", "/drafts/new",
            "/drafts/new?write=1&document=" + quote("hostile.md"), f"/drafts/{number}", f"/drafts/{number}/edit",
            f"/drafts/{number}/chunks", f"/drafts/{number}/questions",
        ):  # fmt: skip
            page.goto(path)
            _looked_at(page)
            assert page.title().endswith("Surefind")


def test_open_server_needs_no_approval_and_says_so(tmp_path: object, home: Home) -> None:
    home.configure(SETTINGS)
    home.write("docs/a.md", "alpha")
    home.sync("docs")
    with serving(home.folder) as server:
        number = _made(server, "", "a.md", "beta\n")
        page = _get(server, "", f"/drafts/{number}").text
        assert "Nobody has to approve a draft here" in page and ">Publish<" in page
        answer = _post(server, "", f"/drafts/{number}/publish")
        assert answer.status_code == 303 and answer.headers["location"].startswith("/jobs/")
        _wait_for(server, "", "/documents/a.md", "beta")
