"""The pages of reports, jobs and the graph: a real server, a plain client, and a real browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import time
from typing import TYPE_CHECKING

import httpx
import pytest
from typer.testing import CliRunner

from helpers import Home
from http_helpers import Rights, Served, a_bank
from report_helpers import row, save_report
from surefind.doors.cli import app
from surefind.doors.web.page import script_hashes
from surefind.engine.store.lock import writer_lock
from surefind.kb.adoption import save_settings, shown_settings, undo_change
from web_helpers import accessible, fits, needs_browser, visiting

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HTML = {"Accept": "text/html"}
HOSTILE = "<script>document.title='broken'</script>"


def run(home: Home, *words: str) -> None:
    result = CliRunner().invoke(app, [*words, "--kb", str(home.folder)])
    assert result.exit_code == 0, result.output


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = a_bank(Home(tmp_path_factory.mktemp("bank")))
    asked = [(f"{HOSTILE} cutoff of wire{n}", f"wires/{n:02}.md") for n in range(8)]
    rows = [json.dumps({"query": text, "document": document}) for text, document in asked]
    home.write("asked.jsonl", "\n".join(rows))
    home.write("pay.jsonl", json.dumps({"query": "zebra cutoff", "document": "hr/pay.md"}))
    for name in ("asked", "pay"):
        run(home, "exam", "import", str(home.folder / f"{name}.jsonl"))
    run(home, "bench", "--exam", "asked", "-p", "words", "-p", "tfidf(analyzer=plain)")
    run(home, "bench", "--exam", "pay", "-p", "words", "--as", "hr")
    run(home, "bench", "--answers", "--per-family", "2", "-p", "words", "--as", "hr")
    return home


@pytest.fixture(scope="module")
def rights() -> Rights:
    return {"reader": (["read"], []), "reviewer": (["read", "review"], []), "hr": (["read", "review"], ["hr"])}


def get(server: Served, key: str, path: str) -> httpx.Response:
    with server.client(key) as http:
        return http.get(path, headers=HTML)


def report_of(bank: Home, exam: str) -> str:
    (found,) = bank.folder.glob(f".surefind/reports/{exam}-*")
    return found.name


def ended(page: Page) -> str:
    """Waits for a job on its page, which asks again by itself; returns the state."""
    page.locator("#job .badge:not(.now), [role=alert]").first.wait_for(timeout=60_000)
    assert page.locator("#job").count(), page.locator("main").inner_text()
    return page.locator("#job").inner_text().split()[0]


# ---------------------------------------------------------------- who sees what


def test_reports_of_other_groups_are_not_there(server: Served, keys: dict[str, str], bank: Home) -> None:
    pay = report_of(bank, "pay")
    assert get(server, keys["reader"], "/reports").status_code == 403
    plain, hr = (get(server, keys[name], "/reports").text for name in ("reviewer", "hr"))
    assert report_of(bank, "asked") in plain and pay not in plain and pay in hr
    for path in (f"/reports/benchmark/{pay}", f"/reports/benchmark/{pay}/full"):
        assert get(server, keys["reviewer"], path).status_code == 404
        assert get(server, keys["hr"], path).status_code == 200
    assert get(server, keys["hr"], "/reports/benchmark/..%2f..").status_code == 404
    assert get(server, keys["hr"], "/reports/recipe/x").status_code == 404


def test_a_caller_learns_how_many_reports_are_for_the_owner(server: Served, keys: dict[str, str], bank: Home) -> None:
    path = save_report(bank.folder, "secret-plans", row("words"), verdict="Use secret-plans.")
    try:
        page = get(server, keys["reviewer"], "/reports").text
    finally:
        shutil.rmtree(path)
    assert "1 report is for the owner" in page and 'href="/sign-in?next=/reports"' in page and "secret" not in page
    assert "for the owner" not in get(server, keys["reviewer"], "/reports").text


def test_the_list_says_what_was_compared(server: Served, keys: dict[str, str], bank: Home) -> None:
    shown = get(server, keys["reviewer"], "/reports").text
    assert "8 questions, for everybody" in shown and "Compared: words and tfidf(analyzer=plain)." in shown


def test_answers_are_a_report_of_those_they_were_made_for(server: Served, keys: dict[str, str], bank: Home) -> None:
    where = f"/reports/answers/{report_of(bank, 'known-item')}"
    assert get(server, keys["reviewer"], where).status_code == 404
    assert where in get(server, keys["hr"], "/reports").text
    shown = get(server, keys["hr"], where)
    assert shown.status_code == 200 and "not answered" not in shown.text and "right if answered" in shown.text


def test_adopting_needs_a_report_that_the_caller_may_see_and_one_of_its_rows(
    server: Served, keys: dict[str, str], bank: Home
) -> None:
    with server.client(keys["reviewer"]) as http:
        hidden = http.post("/reports/adopt", data={"id": report_of(bank, "pay"), "row": "words"})
        other = http.post("/reports/adopt", data={"id": report_of(bank, "asked"), "row": "--undo"})
        unknown = http.post("/reports/start", data={"kind": "bench", "exam": "--use"})
    assert (hidden.status_code, other.status_code, unknown.status_code) == (404, 404, 400)


def test_reviewers_do_not_undo_what_an_admin_edited(server: Served, keys: dict[str, str], bank: Home) -> None:
    """The edit may have restricted a document."""
    shown = shown_settings(bank.folder)
    rule = '\n[[access]]\npath = "wires/01.md"\ngroups = ["hr"]\n'
    save_settings(bank.folder, shown.text + rule, shown.mark)
    try:
        assert "Undo" not in get(server, keys["reviewer"], "/reports").text
        with server.client(keys["reviewer"]) as http:
            refused = http.post("/reports/undo", headers=HTML)
        assert refused.status_code == 400 and "Only an admin" in refused.text
        assert rule in (bank.folder / "surefind.toml").read_text()
    finally:
        with bank.open() as kb:
            undo_change(kb, True, shown_settings(bank.folder).mark)


# ---------------------------------------------------------------- the report's own page


@needs_browser
def test_the_script_of_a_report_runs_and_no_other(
    server: Served, keys: dict[str, str], bank: Home, browser: Browser
) -> None:
    path = f"/reports/benchmark/{report_of(bank, 'asked')}/full"
    answer = get(server, keys["reviewer"], path)
    (allowed,) = re.findall(r"script-src ([^;]+);", answer.headers["content-security-policy"])
    assert allowed == " ".join(f"'sha256-{one}'" for one in script_hashes(answer.text)) and "unsafe" not in allowed
    with visiting(browser, server.url, keys["reviewer"]) as page:
        page.goto(path)
        assert page.locator("h1").inner_text().startswith("Use ")
        assert page.title() != "broken"
        page.get_by_role("link", name="←").click()
        assert page.url.endswith(report_of(bank, "asked"))


@needs_browser
def test_a_script_that_came_with_the_text_does_not_run(
    server: Served, keys: dict[str, str], bank: Home, browser: Browser
) -> None:
    page = browser.new_page(extra_http_headers={"Authorization": f"Bearer {keys['reviewer']}"})
    page.goto(f"{server.url}/reports/benchmark/{report_of(bank, 'asked')}/full")
    page.evaluate("""() => {
      const own = document.createElement("script");
      own.textContent = "document.title = 'broken'";
      document.body.append(own);
      document.body.insertAdjacentHTML("beforeend", `<img src=x onerror="document.title = 1">`);
    }""")
    page.wait_for_timeout(200)
    assert page.title() not in ("broken", "1")
    page.close()


def test_hashes_are_those_of_scripts_that_run() -> None:
    html = '<script type="application/json">{}</script><script>a &amp; b</script><SCRIPT>\nc</SCRIPT >'
    texts = (b"a &amp; b", b"\nc")
    assert script_hashes(html) == [base64.b64encode(hashlib.sha256(text).digest()).decode() for text in texts]


# ---------------------------------------------------------------- working with them


@needs_browser
def test_a_benchmark_is_started_watched_adopted_and_undone(
    server: Served, keys: dict[str, str], bank: Home, browser: Browser
) -> None:
    before = (bank.folder / "surefind.toml").read_text()
    with visiting(browser, server.url, keys["reviewer"]) as page:
        page.goto("/reports")
        accessible(page)
        form = page.locator("form", has=page.get_by_role("heading", name="Benchmark"))
        form.get_by_label("Exam").select_option("asked")
        form.get_by_label("Configurations").select_option("fusion")
        form.get_by_role("button").click()
        page.wait_for_url("**/jobs/*")
        job = page.url
        assert ended(page) == "finished", page.content()
        accessible(page)
        assert get(server, keys["hr"], job.removeprefix(server.url)).status_code == 404
        page.get_by_role("link", name="See the result").click()
        page.wait_for_url("**/reports/benchmark/*")

        page.goto("/reports")
        row = page.locator("tr", has=page.get_by_role("link", name="asked", exact=True)).last
        row.get_by_text("Adopt another row").click()  # the one in use is recommended
        row.get_by_label("Configuration").select_option("tfidf(analyzer=plain)")
        row.get_by_role("button", name="Adopt").click()
        assert ended(page) == "finished", page.content()
        page.get_by_role("link", name="See the result").click()
        assert "Searches use words now" not in page.locator("main").inner_text()  # without a restart
        page.get_by_role("button", name="Undo the last change").click()
        page.get_by_text("Searches use words now").wait_for()
    assert (bank.folder / "surefind.toml").read_text() == before
    assert "words" in get(server, keys["reviewer"], "/reports").text


@needs_browser
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_spills(server: Served, keys: dict[str, str], browser: Browser, width: int) -> None:
    with visiting(browser, server.url, keys["hr"], viewport={"width": width, "height": 800}) as page:
        for path in ("/reports", "/graph"):
            page.goto(path)
            fits(page)


@needs_browser
def test_a_job_can_be_watched_and_stopped_without_a_script(
    server: Served, keys: dict[str, str], browser: Browser
) -> None:
    with visiting(browser, server.url, keys["hr"], java_script_enabled=False) as page:
        page.goto("/reports")
        page.get_by_role("button", name="Start the study").click()
        page.wait_for_url("**/jobs/*")
        assert '<meta http-equiv="refresh"' in page.content()
        page.get_by_role("button", name="Stop").click()
        assert page.locator("#job .badge").inner_text() == "stopped"


def test_a_job_that_finds_the_lock_taken_names_no_process(server: Served, keys: dict[str, str], bank: Home) -> None:
    """The command line of another process has the name and the groups of its caller."""
    with writer_lock(bank.folder / ".surefind"), server.client(keys["hr"]) as http:
        started = http.post("/graph", headers=HTML)
        path = started.headers["location"]
        for _ in range(100):
            job = http.get(f"/v1{path}").json()
            if job["state"] != "running":
                break
            time.sleep(0.1)
        shown = http.get(path, headers=HTML).text
    assert job["state"] == "failed" and "Another process is writing" in shown
    assert str(bank.folder) not in shown + str(job) and "Process" not in shown + str(job)


# ---------------------------------------------------------------- the graph


@needs_browser
def test_the_graph_shows_what_the_visitor_may_read(server: Served, keys: dict[str, str], browser: Browser) -> None:
    with visiting(browser, server.url, keys["hr"]) as page:
        page.goto("/graph")
        page.get_by_role("button", name="Build the graph").click()
        assert ended(page) == "finished", page.content()
        page.get_by_role("link", name="See the result").click()
        accessible(page)
        page.get_by_role("link", name="Open the map").click()
        assert page.locator("#about h1").inner_text() == "The graph"  # its script has run
    texts = {name: get(server, keys[name], "/graph").text for name in ("reader", "hr")}
    assert "Pay" in texts["hr"] and "Pay" not in texts["reader"] and "Wire" in texts["reader"]
    maps = {name: get(server, keys[name], "/graph/map") for name in ("reader", "hr")}
    assert "zebra" not in maps["reader"].text
    assert "'unsafe-inline'" not in maps["reader"].headers["content-security-policy"].partition("style-src")[0]


def test_doctor_finds_damaged_answers(bank: Home) -> None:
    file = bank.folder / ".surefind" / "reports" / report_of(bank, "known-item") / "answers.json"
    before = file.read_text(encoding="utf-8")
    file.write_text(before.replace('"queries": ', '"queries": 1', 1), encoding="utf-8")
    try:
        ran = CliRunner().invoke(app, ["doctor", "--kb", str(bank.folder)])
    finally:
        file.write_text(before, encoding="utf-8")
    assert ran.exit_code == 1 and "surefind bench --answers" in " ".join(ran.output.split())
