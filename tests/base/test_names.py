"""Names of groups and people: checked where they enter, and never cut or joined on their way."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exam_helpers import surefind
from helpers import WORDS, Home
from http_helpers import Served, serving
from identity_provider import Provider
from surefind import Access, KnowledgeBase
from surefind.base.access import Caller
from surefind.base.errors import ConfigError, UsageError
from surefind.doors.auth.gatekeeper import Gatekeeper
from surefind.doors.auth.keys import Keys
from surefind.doors.http.jobs import Job, Jobs
from surefind.doors.http.metrics import Metrics
from surefind.engine.write.writer import this_user
from surefind.kb.settings.serve import serve_settings

WRONG = {
    "everything and a NUL": "*\0",
    "a NUL at the end": "hr\0",
    "a NUL inside": "hr\0x",
    "a line end": "hr\n",
    "an escape": "hr\x1b[0m",
    "a separator of files": "hr\x1c",
    "a next line": "hr\x85",
    "a lone surrogate": "hr\ud800",
    "an escaped byte": "hr\udcff",
    "a line separator": "hr\u2028",
    "a zero-width space": "hr\u200b",
    "a right-to-left override": "\u202ehr",
    "no characters": "",
    "blanks": "  ",
    "too many characters": "h" * 256,
}
NEARLY_OPTIONS = ["--as", "--as=*", "-k", "--json", "--", "=", "a,b", "a b", "$(id)", "'\"", "%s", "größe", "h" * 255]
"""Names that are odd, and allowed."""
WAGES = "The wages of all are zebra.\n"


@pytest.fixture
def home(home: Home) -> Home:
    home.write("docs/open.md", "# Open\n\nThe Wire Desk of Acme Bank is open.\n")
    home.write("docs/pay.md", f"---\nacl: [hr]\n---\n# Pay\n\n{WAGES}")
    home.sync("docs")
    return home


# ---------------------------------------------------------------- where names enter


@pytest.mark.parametrize("name", WRONG.values(), ids=WRONG)
def test_wrong_name_is_refused_at_every_door(home: Home, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys(home.folder / ".surefind")
    for enter in (
        lambda: Access.of(name),
        lambda: keys.create(name, ["read"]),
        lambda: keys.create("a", ["read"], [name]),
        lambda: Gatekeeper(keys, None, "127.0.0.1", [name]),
    ):
        with pytest.raises(UsageError, match="printable"):
            enter()
    assert not keys.any()
    for table in ({"write": [name]}, {"admin": ["ok", name]}):
        with pytest.raises(ConfigError, match="printable"):
            serve_settings({"oidc": {"issuer": "https://x", "audience": "a", "scopes": table}})
    if name.strip():
        monkeypatch.setattr("os.environ", {"SUREFIND_AUTHOR": name})
        with pytest.raises(UsageError, match="SUREFIND_AUTHOR"):
            this_user()


@pytest.mark.parametrize("name", [name for name in WRONG.values() if "\ud800" not in name and "\udcff" not in name])
@pytest.mark.parametrize("where", ["rule", "default"])
def test_wrong_name_in_settings_names_the_line(home: Home, name: str, where: str) -> None:
    listed = f"[{json.dumps(name)}]"
    rules = {
        "rule": f'[[access]]\npath = "hr/**"\ngroups = {listed}\n',
        "default": f"[access]\ndefault = {listed}\n",
    }
    home.configure(f"{WORDS}\n{rules[where]}")
    with pytest.raises(ConfigError, match=r"surefind\.toml"):
        home.open()


@pytest.mark.parametrize("name", ["hr\n", "hr\x1b", "h" * 256, "\u202ehr"])
@pytest.mark.parametrize("words", [("search", "zebra"), ("access",), ("graph", "stats"), ("keys", "create", "x")])
def test_wrong_name_on_the_command_line_is_one_sentence(home: Home, name: str, words: tuple[str, ...]) -> None:
    ran = surefind(*words, "--as", name, kb=home.folder)
    assert ran.code == 2 and "printable" in ran.err and "Traceback" not in ran.err


def test_names_are_the_same_however_their_accents_are_stored(home: Home) -> None:
    composed, apart = "B\u00fcro", "Bu\u0308ro"
    for number, name in enumerate((composed, apart)):
        home.write(f"docs/{number}.md", f"---\nacl: [{name}]\n---\nThe wages are zebra.\n")
        home.write(f"docs/rule{number}/a.md", "The wages are zebra.\n")
    rules = "".join(
        f'[[access]]\npath = "rule{number}/**"\ngroups = ["{name}"]\n' for number, name in enumerate((composed, apart))
    )
    home.configure(f"{WORDS}\n{rules}")
    home.sync("docs")
    with home.open() as kb:
        keys = Keys(kb.data)
        for number, name in enumerate((composed, apart)):
            _, text = keys.create(f"k{number}", ["read"], [name])
            for access in (Access.of(name), keys.caller(text).access()):
                found = {hit.document for hit in kb.search("zebra", access, 10).hits}
                assert found == {"0.md", "1.md", "rule0/a.md", "rule1/a.md"}


@pytest.mark.parametrize("listed", [json.dumps(["hr\0"]), json.dumps("hr\u200b"), json.dumps(["x" * 300])])
def test_wrong_name_in_a_document_keeps_it_out(home: Home, listed: str) -> None:
    home.write("docs/new.md", f"---\nacl: {listed}\n---\nThe new zebra.\n")
    report = home.sync("docs")
    assert [problem.path for problem in report.problems] == ["new.md"]
    assert home.found("zebra") == []


# ---------------------------------------------------------------- tokens


@pytest.fixture
def provider() -> Iterator[Provider]:
    found = Provider()
    yield found
    found.close()


@pytest.fixture
def server(home: Home, provider: Provider) -> Iterator[Served]:
    scopes = 'scopes = { write = ["writers"], review = ["reviewers"], admin = ["admins"] }'
    home.configure(f'{WORDS}\n[serve.oidc]\nissuer = "{provider.url}"\naudience = "surefind"\n{scopes}\n')
    with serving(home.folder) as found:
        yield found


def _job(server: Served, token: str, **wanted: Any) -> dict[str, Any]:
    with server.client(token) as client:
        started = client.post("/v1/jobs", json=wanted)
        assert started.status_code == 202, started.text
        for _ in range(600):
            found: dict[str, Any] = client.get(f"/v1/jobs/{started.json()['id']}").json()
            if found["ended"]:
                return found
            time.sleep(0.05)
    raise AssertionError("the job did not end")


def test_wrong_group_in_a_token_gives_nothing_through_any_door(server: Served, home: Home, provider: Provider) -> None:
    home.write("asked.csv", "question,document\nwho is open?,open.md\nwhat is zebra?,pay.md\n")
    ran = surefind("exam", "import", home.folder / "asked.csv", "--name", "staff", kb=home.folder)
    assert ran.code == 0, ran.err
    wrong = [name for name in WRONG.values() if len(name) < 200]
    more = [*wrong, "admins\0", "writers\n", "*\x1c", ["hr"], {"hr": 1}, None, True]
    token = provider.token(groups=[*more, "reviewers"])
    with server.client(token) as client:
        answer = client.get("/v1/search", params={"query": "zebra wages"})
        assert answer.status_code == 200 and answer.json()["hits"] == []
        assert client.get("/v1/documents/pay.md").status_code == 404
        assert client.get("/metrics").status_code == 403
    with server.client(provider.token(groups=more)) as client:
        assert client.post("/v1/jobs", json={"kind": "sync"}).status_code == 403
    job = _job(server, token, kind="bench", exam="staff")
    assert "zebra" not in json.dumps(job) and "pay.md" not in json.dumps(job)
    for path in (home.folder / ".surefind/reports").rglob("report.json"):
        assert json.loads(path.read_text())["groups"] == ["reviewers"]
    for joined in ("*\0 reviewers", "hr\x1freviewers", "hr\n"):
        with server.client(provider.token(groups=joined)) as client:
            assert client.get("/v1/search", params={"query": "zebra wages"}).json()["hits"] == []


def test_wrong_subject_is_refused_in_one_sentence(server: Served, provider: Provider) -> None:
    for what, name in WRONG.items():
        with server.client(provider.token(sub=name)) as client:
            answer = client.get("/v1/drafts")
        assert answer.status_code == 401, (what, answer.text)
        assert "1 to 255 printable characters" in answer.json()["detail"], what


# ---------------------------------------------------------------- jobs


async def _ended(_kind: str, _state: str) -> None:
    pass


def _stats(folder: Path, *groups: str) -> Job:
    """A job that counts what its caller may read."""

    async def main() -> Job:
        found = Jobs(folder, Metrics(), _ended)
        job = await found.start(Caller("ada", frozenset({"review"}), frozenset(groups)), "graph", {})
        while job.ended is None:
            await asyncio.sleep(0.02)
        await found.close()
        return job

    return asyncio.run(main())


def test_job_has_the_groups_of_its_caller_and_no_others(home: Home) -> None:
    public, restricted = _stats(home.folder), _stats(home.folder, "hr")
    assert public.state == restricted.state == "finished", (public.error, restricted.error)
    assert public.result != restricted.result
    assert _stats(home.folder, *NEARLY_OPTIONS).result == public.result
    assert _stats(home.folder, *NEARLY_OPTIONS, "hr").result == restricted.result
    for name in ("*\0", "hr\0", "hr\ud800"):  # not through a door, but by a mistake of ours
        job = _stats(home.folder, name)
        assert (job.state, job.error_kind) == ("failed", "UsageError")


def test_identity_is_not_in_the_command_line_of_a_job(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other users of the machine can read the command lines of its processes."""
    started: list[tuple[Any, ...]] = []
    real = subprocess.Popen

    def noted(words: Any, **more: Any) -> Any:
        started.append((*words, *(more.get("env") or {}).values()))
        return real(words, **more)

    monkeypatch.setattr(subprocess, "Popen", noted)
    _stats(home.folder, "a-secret-group")
    assert len(started) == 1
    assert not any("a-secret-group" in str(word) or word == "ada" for word in started[0])


def test_draft_has_the_author_of_the_caller_who_published_it(home: Home) -> None:
    async def main(number: int) -> Job:
        found = Jobs(home.folder, Metrics(), _ended)
        caller = Caller("Zoë; rm -rf", frozenset({"review"}), frozenset())
        job = await found.start(caller, "publish", {"version": number})
        while job.ended is None:
            await asyncio.sleep(0.02)
        return job

    with KnowledgeBase.open(home.folder) as kb:
        number = kb.drafts.add_bytes("new.md", b"A new rule.", author="bob").number
        assert asyncio.run(main(number)).state == "finished"
        assert kb.drafts.store.events(number)[-1].who == "Zoë; rm -rf"
