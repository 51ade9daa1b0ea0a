"""The page of settings: surefind.toml, keys, models. A real server, a plain client, and a real browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpx
import pytest

from helpers import Home
from http_helpers import SETTINGS, Rights, Served, a_bank, serving
from surefind.doors.auth.keys import Keys
from web_helpers import accessible, fits, needs_browser, visiting

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HTML = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def rights() -> Rights:
    return {"admin": (["admin"], ["*"]), "reviewer": (["read", "write", "review"], ["*"])}


def text_of(bank: Home) -> str:
    return (bank.folder / "surefind.toml").read_text()


def mark_of(page: str) -> str:
    found = re.search(r'name="mark" value="(\w+)"', page)
    assert found
    return found[1]


def save(http: httpx.Client, text: str, mark: str) -> httpx.Response:
    return http.post("/settings", data={"text": text, "mark": mark}, headers=HTML)


# ---------------------------------------------------------------- who may


def test_only_admins_see_and_change_settings(server: Served, keys: dict[str, str], bank: Home) -> None:
    before = text_of(bank)
    with server.client(keys["reviewer"]) as http:
        assert http.get("/settings", headers=HTML).status_code == 403
        assert http.get("/settings/models", headers=HTML).status_code == 403
        for path in ("/settings", "/settings/undo", "/settings/sync", "/settings/keys", "/settings/keys/revoke"):
            given = {"text": "", "mark": "x", "name": "mine", "scope": "admin", "id": "admin"}
            assert http.post(path, data=given, headers=HTML).status_code == 403, path
    with server.client() as http:
        assert http.post("/settings", data={"text": "", "mark": "x"}).status_code == 401
    assert text_of(bank) == before


def test_an_open_server_says_how_to_make_the_first_admin(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = a_bank(Home(tmp_path_factory.mktemp("open")))
    with serving(home.folder) as server, server.client() as http:
        page = http.get("/settings", headers=HTML).text
        assert "surefind keys create NAME --scope admin" in page and "<textarea" not in page
        given = {"name": "me", "scope": "admin", "text": "", "mark": "x"}
        assert http.post("/settings/keys", data=given, headers=HTML).status_code == 403
        assert http.post("/settings", data=given, headers=HTML).status_code == 403
    assert not Keys(home.folder / ".surefind").any()


# ---------------------------------------------------------------- surefind.toml


@needs_browser
def test_settings_are_checked_saved_used_at_once_and_undone(
    server: Served, keys: dict[str, str], bank: Home, browser: Browser
) -> None:
    with visiting(browser, server.url, keys["admin"]) as page:
        page.goto("/settings")
        page.locator("#checked").wait_for()
        assert page.title() == "Settings – Surefind"  # and not that of the part that was loaded
        accessible(page)
        box = page.get_by_label("The text of surefind.toml")
        box.fill(SETTINGS.replace('"words"', '"wrods"', 1))
        page.get_by_role("button", name="Save").click()
        alert = page.get_by_role("alert").inner_text()
        assert re.search(r"line \d+: there is no pipeline 'wrods'", alert) and "Nothing was written" in alert
        assert '"wrods"' in box.input_value()  # what was typed is not lost
        box.fill(SETTINGS.replace('pipeline = "words"', 'pipeline = "counts"'))
        page.get_by_role("button", name="Save").click()
        assert "from now on" in page.get_by_role("status").first.inner_text()
        page.goto("/")
        assert page.get_by_label("Pipeline").locator("option:checked").inner_text() == "counts"
        page.goto("/settings")
        page.get_by_role("button", name="Undo the last change").click()
        assert "before the last change" in page.get_by_role("status").first.inner_text()
    assert text_of(bank) == SETTINGS


@needs_browser
def test_settings_that_need_an_index_wait_for_it(
    server: Served, keys: dict[str, str], bank: Home, browser: Browser
) -> None:
    new = SETTINGS.replace('retrieve = ["tfidf"]', 'retrieve = ["tfidf(analyzer=plain)"]')
    with visiting(browser, server.url, keys["admin"]) as page:
        page.goto("/settings")
        page.get_by_label("The text of surefind.toml").fill(new)
        page.get_by_role("button", name="Save").click()
        assert "not used yet" in page.locator("main").inner_text()
        assert page.request.get("/?query=cutoff&pipeline=counts").ok  # searches go on with the earlier settings
        page.get_by_role("button", name="Build what they need").click()
        page.get_by_role("link", name="See the result").click(timeout=60_000)
        assert "not used yet" not in page.locator("main").inner_text()
        found = page.request.get("/v1/search?query=cutoff&pipeline=counts").json()
        assert "analyzer=plain" in found["pipeline"]
    bank.configure(SETTINGS)


def test_nobody_overwrites_what_somebody_else_saved(server: Served, keys: dict[str, str], bank: Home) -> None:
    bank.configure(SETTINGS)
    with server.client(keys["admin"]) as http:
        mark = mark_of(http.get("/settings", headers=HTML).text)
        assert save(http, SETTINGS + "# first\n", mark).status_code == 303
        late = save(http, SETTINGS + "# second\n", mark)
        assert late.status_code == 400 and "changed since you opened it" in late.text and "# second" in late.text
        assert save(http, SETTINGS + "# second\n", mark_of(late.text)).status_code == 400  # not by trying again either
    assert text_of(bank) == SETTINGS + "# first\n"
    bank.configure(SETTINGS)


def test_secrets_in_the_file_are_not_shown(server: Served, keys: dict[str, str], bank: Home) -> None:
    bank.configure("# api_key = sk-abcdefghijklmnopqrstuvwxyz\n" + SETTINGS)
    with server.client(keys["admin"]) as http:
        page = http.get("/settings", headers=HTML).text
        assert "sk-abc" not in page and "[redacted]" in page
        bad = save(http, "[llm]\nretries = 'sk-abcdefghijklmnopqrstuvwxyz'\n", mark_of(page))
        alert = bad.text.partition('role="alert">')[2].partition("</p>")[0]
        assert bad.status_code == 400 and "retries" in alert and "sk-abc" not in alert
    bank.configure(SETTINGS)


# ---------------------------------------------------------------- keys and models


@needs_browser
def test_a_key_is_shown_once_works_and_is_revoked(
    server: Served, keys: dict[str, str], bank: Home, browser: Browser
) -> None:
    with visiting(browser, server.url, keys["admin"]) as page:
        page.goto("/settings")
        page.get_by_text("Make a key").click()
        page.get_by_label("Name").fill("support <desk>")
        page.get_by_label("write").check()
        page.get_by_label("Groups").fill("hr, staff")
        page.get_by_label("Days").fill("30")
        page.get_by_role("button", name="Make the key").click()
        accessible(page)
        key = page.locator("pre.key").inner_text().strip()
        assert key not in page.url
        with server.client(key) as http:
            assert http.get("/v1/search?query=zebra").json()["hits"]
            assert http.get("/v1/drafts").status_code == 200
        page.get_by_role("link", name="Back to the settings").click()
        assert key not in page.content() and key.split("_", 2)[2] not in page.content()
        page.get_by_role("button", name="Revoke support <desk>").click()
        assert "revoked" in page.get_by_role("status").inner_text()
        with server.client(key) as http:
            assert http.get("/v1/search?query=zebra").status_code == 401
    (made,) = [one for one in Keys(bank.folder / ".surefind").list() if one.name == "support <desk>"]
    assert made.groups == ("hr", "staff") and set(made.scopes) == {"read", "write"} and made.expires


def test_a_key_without_a_scope_or_with_odd_days_is_refused(server: Served, keys: dict[str, str]) -> None:
    with server.client(keys["admin"]) as http:
        for given, told in (
            ({"name": "x"}, "at least one scope"),
            ({"name": "x", "scope": "root"}, "no scope"),
            ({"name": "x", "scope": "read", "days": "soon"}, "whole number"),
            ({"name": "admin", "scope": "read"}, "already"),
        ):
            answer = http.post("/settings/keys", data=given, headers=HTML)
            assert answer.status_code == 400 and told in answer.text


@needs_browser
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_spills_and_models_come_by_themselves(
    server: Served, keys: dict[str, str], browser: Browser, width: int
) -> None:
    size = {"width": width, "height": 800}
    with visiting(browser, server.url, keys["admin"], viewport=size, color_scheme="dark") as page:
        page.goto("/settings")
        page.get_by_text("The pipelines use no model").wait_for()
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
        fits(page)
        accessible(page)
