"""Who may call the server, and what each caller sees: API keys, tokens, scopes, groups."""

from __future__ import annotations

import hmac
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from cases import each
from exam_helpers import surefind
from helpers import Home
from http_helpers import SETTINGS, Rights, Served, a_bank, serving
from identity_provider import Provider
from report_helpers import row, save_report
from surefind.base.access import SCOPES, Caller, Scope
from surefind.base.disk.sealed import read_sealed, write_sealed
from surefind.base.errors import ConfigError, StoreError, UsageError
from surefind.doors.auth.gatekeeper import Gatekeeper, Tokens, TooManyError
from surefind.doors.auth.keys import Keys, NotAuthenticatedError
from surefind.doors.http.turns import Rate, TooOftenError
from surefind.kb.settings.serve import Oidc, serve_settings
from surefind.lab.bench.report import CorpusFacts

# ---------------------------------------------------------------- keys


def test_a_key_is_stored_as_a_hash_that_only_its_owner_may_read(home: Home) -> None:
    keys = Keys(home.folder)
    key, text = keys.create("chatbot", ["read"], ["hr"])
    stored = keys.path.read_text()
    assert text.split("_", 2)[2] not in stored and key.id in stored
    assert keys.path.stat().st_mode & 0o077 == 0
    caller = keys.caller(text)
    assert (caller.name, caller.groups, caller.scopes) == ("chatbot", {"hr"}, {"read"})


def test_wrong_revoked_and_expired_keys_are_refused(home: Home) -> None:
    keys = Keys(home.folder)
    _, text = keys.create("a", ["read"])
    _, short = keys.create("b", ["read"], days=1e-9)
    for wrong in (
        "",
        "sf_",
        text[:-1],
        text + "x",
        text[:-1] + ("A" if text[-1] != "A" else "B"),
        "sf_" + "0" * 56,
        short,
    ):
        with pytest.raises(NotAuthenticatedError):
            keys.caller(wrong)
    Keys(home.folder).revoke("a")  # by another process
    with pytest.raises(NotAuthenticatedError):
        keys.caller(text)


def test_every_key_is_compared_in_constant_time(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys(home.folder)
    _, text = keys.create("a", ["read"])
    calls: list[int] = []
    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: calls.append(1) or real(a, b))
    keys.caller(text)
    for wrong in ("nonsense", "sf_" + "0" * 12 + "_" + "x" * 43):
        with pytest.raises(NotAuthenticatedError):
            keys.caller(wrong)
    assert len(calls) == 3


@each("damage", ["", "{}", "[]", '{"checksum": "x", "format": 1, "keys": []}', "not json"])
def test_a_damaged_key_file_never_means_no_keys(home: Home, damage: str) -> None:
    keys = Keys(home.folder)
    _, text = keys.create("a", ["admin"])
    keys.path.write_text(damage)
    for call in (lambda: keys.caller(text), keys.any, keys.list, lambda: keys.create("b", ["read"])):
        with pytest.raises(StoreError):
            call()
    with pytest.raises(StoreError):
        Gatekeeper(keys, None, "127.0.0.1")


@each(
    ("name", "scopes", "days"),
    [("", ["read"], None), ("a\n", ["read"], 0), ("a", ["all"], None), ("oidc:ada", ["read"], None), ("a", [], None)],
)
def test_a_wrong_key_is_not_made(home: Home, name: str, scopes: list[str], days: float | None) -> None:
    with pytest.raises(UsageError):
        Keys(home.folder).create(name, scopes, days=days)


def test_keys_of_many_processes_are_all_kept(home: Home) -> None:
    threads = [threading.Thread(target=Keys(home.folder).create, args=(f"k{n}", ["read"])) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Keys(home.folder).list()) == 20


def test_the_command_line_makes_lists_and_revokes_keys(tmp_path: Path) -> None:
    home = Home(tmp_path, SETTINGS)
    home.write("docs/a.md", "text")
    assert surefind("keys", "create", "x", kb=home.folder).code == 3
    home.sync("docs")
    made = surefind("keys", "create", "chatbot", "--scope", "read", "--as", "hr", kb=home.folder)
    text = made.out.strip().splitlines()[0]
    assert Keys(home.folder / ".surefind").caller(text).groups == {"hr"}
    listed = surefind("keys", "list", kb=home.folder).out
    assert "chatbot" in listed and text.split("_", 2)[2] not in listed
    assert surefind("keys", "create", "chatbot", kb=home.folder).code == 2
    assert surefind("keys", "revoke", "chatbot", kb=home.folder).code == 0
    assert surefind("keys", "revoke", "chatbot", kb=home.folder).code == 2


def test_an_address_with_too_many_wrong_keys_waits_and_a_right_key_never(home: Home) -> None:
    keys = Keys(home.folder)
    _, text = keys.create("a", ["read"])
    gate = Gatekeeper(keys, None, "0.0.0.0")
    for _ in range(20):
        with pytest.raises(NotAuthenticatedError):
            gate.caller("Bearer wrong", "10.0.0.1")
    with pytest.raises(TooManyError):
        gate.caller("Bearer wrong", "10.0.0.1")
    assert gate.caller(f"Bearer {text}", "10.0.0.1").name == "a"
    with pytest.raises(NotAuthenticatedError) as error:
        gate.caller("Bearer wrong", "10.0.0.2")
    assert not isinstance(error.value, TooManyError)


def test_a_caller_who_asks_too_often_waits() -> None:
    rate = Rate(3)
    for _ in range(3):
        rate.check("a")
    with pytest.raises(TooOftenError):
        rate.check("a")
    rate.check("b")


# ---------------------------------------------------------------- tokens


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    found = Provider()
    yield found
    found.close()


def _tokens(provider: Provider, **more: Any) -> Tokens:
    return Tokens(Oidc(provider.url, "surefind", scopes={"write": ("editors",)}, **more))


def test_the_groups_of_a_token_are_those_of_the_caller(provider: Provider) -> None:
    tokens = _tokens(provider)
    caller = tokens.caller(provider.token())
    assert (caller.name, caller.groups, caller.scopes) == (_name(provider, "ada"), {"hr"}, {"read"})
    assert tokens.caller(provider.token(groups=["editors", "hr"])).scopes == {"read", "write"}
    assert tokens.caller(provider.token(groups="hr staff")).groups == {"hr", "staff"}
    assert tokens.caller(provider.token(groups=None)).groups == frozenset()


def _name(provider: Provider, subject: str) -> str:
    return f"oidc:{provider.url}#{subject}"


def test_a_caller_is_the_issuer_and_the_whole_subject(provider: Provider) -> None:
    tokens = _tokens(provider)
    long = "s" * 254
    composed, apart = "Zo\u00eb", "Zoe\u0308"
    subjects = [long, long + "a", long + "b", "ada", "Ada", "ada#b", composed]
    names = [tokens.caller(provider.token(sub=subject)).name for subject in subjects]
    assert names == [_name(provider, subject) for subject in subjects]
    for wrong in (None, "", " ", " ada", "ada ", apart, long + "ab", 7, ["ada"], {}, True):
        with pytest.raises(NotAuthenticatedError, match="The token is not valid"):
            tokens.caller(_signed(provider, wrong))
    also = {"email": "ada@x.org", "name": "Ada", "preferred_username": "ada", "client_id": "x", "azp": "x"}
    with pytest.raises(NotAuthenticatedError):
        tokens.caller(provider.token(sub=None, **also))
    assert tokens.caller(provider.token(**also)).name == _name(provider, "ada")


def _signed(provider: Provider, subject: object) -> str:
    """A token with any subject: the library that makes tokens takes text only."""
    claims = {"iss": provider.url, "aud": "surefind", "exp": int(time.time() + 60), "sub": subject}
    return jwt.PyJWS().encode(json.dumps(claims).encode(), provider.private, "RS256", {"kid": "k1"})


def test_the_same_subject_of_another_issuer_is_another_caller(provider: Provider) -> None:
    other = Oidc(f"{provider.url}/realms/b", "surefind", jwks_url=f"{provider.url}/keys")
    names = {
        _tokens(provider).caller(provider.token()).name,
        Tokens(other).caller(provider.token(iss=other.issuer)).name,
    }
    assert len(names) == 2


@each("groups", [["*"], "*", [" * "], ["*", "hr"], {"a": "*"}, [["*"]], 7])
def test_no_token_reads_everything(provider: Provider, groups: Any) -> None:
    assert not _tokens(provider).caller(provider.token(groups=groups)).access().sees_all


def test_a_token_that_is_wrong_in_any_way_is_refused(provider: Provider) -> None:
    tokens = _tokens(provider)
    other = rsa.generate_private_key(65537, 2048)
    public = provider.private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    head, body, mark = provider.token().split(".")
    wrong = [
        provider.token(exp=time.time() - 3600),
        provider.token(exp=None),
        provider.token(aud="another"),
        provider.token(aud=None),
        provider.token(iss="https://evil.example"),
        provider.token(nbf=time.time() + 3600),
        provider.token(key=other),
        provider.token(kid="k2"),
        jwt.encode({"iss": provider.url, "aud": "surefind", "exp": time.time() + 60}, None, "none", {"kid": "k1"}),
        _symmetric(provider, public),
        f"{head}.{body}.",
        f"{head}.{body[:-2]}xx.{mark}",
        "x.y.z",
        "",
        "a" * 100_000,
    ]
    for text in wrong:
        with pytest.raises(NotAuthenticatedError):
            tokens.caller(text)


def _symmetric(provider: Provider, public: bytes) -> str:
    """A token that is signed with the provider's public key as if it were a secret."""
    import base64
    import hashlib

    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    claims = {"iss": provider.url, "aud": "surefind", "exp": time.time() + 60, "groups": ["hr"]}
    signed = f"{part(json.dumps({'alg': 'HS256', 'kid': 'k1'}).encode())}.{part(json.dumps(claims).encode())}"
    return f"{signed}.{part(hmac.new(public, signed.encode(), hashlib.sha256).digest())}"


def test_unknown_keys_do_not_make_a_download_each(provider: Provider) -> None:
    tokens = _tokens(provider)
    before = provider.asked
    for n in range(20):
        with pytest.raises(NotAuthenticatedError):
            tokens.caller(provider.token(kid=f"x{n}"))
    assert provider.asked - before <= 2


def test_a_provider_that_sends_elsewhere_is_not_followed(provider: Provider) -> None:
    provider.redirect = f"{provider.url}/elsewhere"
    try:
        with pytest.raises(NotAuthenticatedError):
            _tokens(provider).caller(provider.token())
    finally:
        provider.redirect = ""


NOT_PRIVATE = [
    "http://localhost.evil.com/", "http://127.0.0.1@evil.com", "http://127.0.0.1.evil.com", "http://localhost@evil.com/",
    "http://localhost:80@evil.com", "http://[::1].evil.com/", "http://[::1]@evil.com", "http://127.0.0.1\\@evil.com",
    "http://localhost\\.evil.com", "http://localhost%2eevil.com", "http://127.0.0.1%00.evil.com", "http://localhost\t",
    "https://", "https:///x", "https://user@login.example", "https://login.example:x", "https://login.example:99999",
    "http://localhos\u0442", "https://[x]", "https://a b", "HTTP://evil.com", "http://0x7f.evil.com", "//login.example",
]  # fmt: skip
"""Addresses that only look as if they were this machine, or https."""


@each("url", ["http://localhost", "http://127.0.0.1:8/x", "http://[::1]:9", "http://127.8.0.1", "https://a.b:1/c"])
def test_this_machine_and_https_may_be_a_provider(url: str) -> None:
    assert Oidc(url, "a", jwks_url=url).issuer == url


@each(
    "given",
    [
        {"issuer": "http://login.example", "audience": "a"},
        {"issuer": "ftp://x", "audience": "a"},
        *({"issuer": url, "audience": "a"} for url in NOT_PRIVATE),
        *({"issuer": "https://x", "audience": "a", "jwks_url": url} for url in NOT_PRIVATE),
        {"issuer": "https://x"},
        {"issuer": "https://x#y", "audience": "a"},
        {"issuer": "https://x", "audience": "a", "name_claim": "email"},
        {"issuer": "https://x", "audience": "a", "scopes": {"root": ["x"]}},
        {"issuer": "https://x", "audience": "a", "scopes": ["x"]},
        {"issuer": "https://x", "audience": "a", "other": "x"},
        {"issuer": 7, "audience": "a"},
    ],
)
def test_wrong_settings_of_a_provider_are_refused(given: Any) -> None:
    with pytest.raises(ConfigError):
        serve_settings({"oidc": given})


@each(
    "given", [{"hots": "x"}, {"port": "80"}, {"port": 70_000}, {"timeout": 0}, {"allowed_hosts": "x"}, {"max_k": True}]
)
def test_wrong_settings_of_the_server_are_refused(given: Any) -> None:
    with pytest.raises(ConfigError):
        serve_settings(given)


# ---------------------------------------------------------------- a server with callers


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Home:
    home = a_bank(Home(tmp_path_factory.mktemp("bank")))
    oidc = f'\n[serve]\nrequests_per_minute = 400\n[serve.oidc]\nissuer = "{provider.url}"\naudience = "surefind"\n'
    oidc += 'scopes = { write = ["editors"] }\n'
    home.configure(SETTINGS + oidc)
    return home


@pytest.fixture(scope="module")
def rights() -> Rights:
    return {
        "reader": (["read"], []),
        "hr": (["read"], ["hr"]),
        "writer": (["read", "write"], []),
        "admin": (["admin"], ["*"]),
    }


def _documents(server: Served, key: str) -> set[str]:
    with server.client(key) as client:
        answer = client.get("/v1/search", params={"query": "cutoff salaries", "k": 100})
        assert answer.status_code == 200, answer.text
        return {hit["document"] for hit in answer.json()["hits"]}


def test_each_caller_sees_its_documents(server: Served, keys: dict[str, str], provider: Provider) -> None:
    assert "hr/pay.md" not in _documents(server, keys["reader"])
    assert "hr/pay.md" in _documents(server, keys["hr"])
    assert "hr/pay.md" in _documents(server, keys["admin"])
    assert "hr/pay.md" not in _documents(server, keys["reader"]), "the cache is not shared between groups"
    assert "hr/pay.md" in _documents(server, provider.token())
    assert "hr/pay.md" not in _documents(server, provider.token(groups=["*"]))


def test_without_a_key_nothing_is_answered(server: Served) -> None:
    with server.client() as client:
        for path in ("/v1/search?query=x", "/v1/documents", "/v1/exams", "/v1/jobs", "/metrics", "/v1/drafts"):
            answer = client.get(path)
            assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
        assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200
        for wrong in ("Basic abc", "Bearer", "sf_x"):
            assert client.get("/v1/search?query=x", headers={"Authorization": wrong}).status_code == 401


@pytest.mark.parametrize(
    ("who", "method", "path", "body"),
    [
        ("reader", "POST", "/v1/documents?name=x.md", b"text"),
        ("reader", "POST", "/v1/feedback", b'{"query": "x", "id": "0000000000000000", "kind": "up"}'),
        ("reader", "POST", "/v1/jobs", b'{"kind": "sync"}'),
        ("reader", "GET", "/v1/exams", b""),
        ("reader", "GET", "/v1/reports", b""),
        ("reader", "GET", "/metrics", b""),
        ("writer", "POST", "/v1/drafts/1/publish", b"{}"),
        ("writer", "POST", "/v1/jobs", b'{"kind": "bench"}'),
        ("writer", "GET", "/v1/search?query=x&pipeline=bm25", b""),
    ],
)
def test_a_scope_is_needed(server: Served, keys: dict[str, str], who: str, method: str, path: str, body: bytes) -> None:
    with server.client(keys[who]) as client:
        headers = {"Content-Type": "application/json"} if body.startswith(b"{") else {}
        assert client.request(method, path, content=body, headers=headers).status_code == 403


@each("highest", SCOPES)
def test_a_scope_includes_those_before_it(highest: Scope) -> None:
    """A key with one scope may do all that it needs for that: a reviewer opens the pages and the drafts."""
    caller = Caller("ada", frozenset({highest}), frozenset())
    assert [scope for scope in SCOPES if caller.may(scope)] == list(SCOPES[: SCOPES.index(highest) + 1])


def test_a_reviewer_without_other_scopes_reads_searches_and_uploads(bank: Home, server: Served) -> None:
    _, text = Keys(bank.folder / ".surefind").create("only review", ["review"])
    with server.client(text) as client:
        for path in (
            "/v1/search?query=wire",
            "/v1/documents",
            "/v1/drafts",
            "/v1/reports",
            "/",
            "/documents",
            "/drafts",
        ):
            assert client.get(path).status_code == 200, path
        assert client.post("/v1/documents?name=x.md", content=b"# A text").status_code == 201
        assert client.get("/metrics").status_code == 403


def test_an_admin_may_send_a_spec(server: Served, keys: dict[str, str]) -> None:
    with server.client(keys["admin"]) as client:
        answer = client.get("/v1/search", params={"query": "wire7", "pipeline": "bm25(k1=0)"})
        assert answer.status_code == 200 and answer.json()["pipeline"].startswith("bm25(k1=0")


def test_a_revoked_key_is_refused_by_a_running_server(bank: Home, server: Served) -> None:
    store = Keys(bank.folder / ".surefind")
    _, text = store.create("short-lived", ["read"])
    with server.client(text) as client:
        assert client.get("/v1/documents").status_code == 200
        store.revoke("short-lived")
        assert client.get("/v1/documents").status_code == 401


def test_jobs_of_others_are_not_found(server: Served, keys: dict[str, str]) -> None:
    with server.client(keys["writer"]) as client:
        job = client.post("/v1/jobs", json={"kind": "sync"}).json()["id"]
    with server.client(keys["hr"]) as client:
        assert client.get(f"/v1/jobs/{job}").status_code == 404
        assert client.delete(f"/v1/jobs/{job}").status_code == 404
        assert client.get("/v1/jobs").json() == {"jobs": []}


def test_drafts_and_versions_of_others_are_not_shown(server: Served, keys: dict[str, str]) -> None:
    with server.client(keys["writer"]) as client:
        text = b"---\nacl: [hr]\n---\nzebra wages"
        assert client.post("/v1/documents", params={"name": "wages.md"}, content=text).status_code == 201
        shown = [one["document"] for one in client.get("/v1/drafts").json()["drafts"]]
        assert [name for name in shown if name != "ideas.md"] == ["wages.md"]  # another test may have proposed ideas
    with server.client(keys["hr"]) as client:
        assert client.get("/v1/drafts").status_code == 403


def test_people_whose_subjects_begin_alike_do_not_see_each_others_drafts(
    server: Served, provider: Provider, keys: dict[str, str]
) -> None:
    alike = "auth0|" + "x" * 200
    with server.client(provider.token(sub=alike + "1", groups=["editors"])) as client:
        made = client.post("/v1/documents", params={"name": "mine.md"}, content=b"My zebra.")
        assert made.status_code == 201, made.text
        number = made.json()["number"]
        assert client.get(f"/v1/drafts/{number}").status_code == 200
    for subject in (alike + "2", alike, alike[:94], alike[:95]):
        with server.client(provider.token(sub=subject, groups=["editors"])) as client:
            assert client.get(f"/v1/drafts/{number}").status_code == 404
            assert client.get("/v1/drafts").json()["drafts"] == []
    with server.client(provider.token(sub=None, groups=["editors"])) as client:
        assert client.get("/v1/drafts").status_code == 401


def test_no_key_or_token_or_query_is_logged(server: Served, keys: dict[str, str], provider: Provider) -> None:
    token = provider.token()
    for key in (*keys.values(), token, "sf_" + "0" * 12 + "_" + "y" * 43):
        with server.client(key) as client:
            client.get("/v1/search", params={"query": "a question about nothing"})
            client.get("/v1/search", params={"query": "a question about nothing", "pipeline": "nope"})
    log = server.log.read_text()
    for secret in (*keys.values(), token, "y" * 43, "a question about nothing"):
        assert secret not in log


def test_a_damaged_key_file_closes_the_server(bank: Home, server: Served, keys: dict[str, str]) -> None:
    path = bank.folder / ".surefind" / "keys.json"
    whole = path.read_bytes()
    try:
        path.write_bytes(whole[:-30])
        os.utime(path)
        with server.client(keys["admin"]) as client:
            answer = client.get("/v1/documents")
            assert answer.status_code == 500 and str(bank.folder) not in answer.text
    finally:
        path.write_bytes(whole)
    assert _documents(server, keys["reader"])


def test_a_caller_who_asks_too_often_is_told_to_wait(bank: Home, server: Served) -> None:
    _, text = Keys(bank.folder / ".surefind").create("greedy", ["read"])
    with server.client(text) as client:
        codes = set[int]()
        for _ in range(3000):  # tokens come back meanwhile, so a slow machine needs more requests
            codes.add(client.get("/v1/jobs").status_code)
            if 429 in codes:
                break
    assert codes == {200, 429}


def test_old_reports_and_those_of_other_groups_are_not_shown(bank: Home, server: Served, keys: dict[str, str]) -> None:
    store = Keys(bank.folder / ".surefind")
    _, reviewer = store.create("reviewer", ["review"])
    _, of_hr = store.create("reviewer of hr", ["review"], ["hr"])
    for name, groups in (("open", []), ("pay", ["hr"]), ("all", ["*"]), ("old", None)):
        corpus = CorpusFacts(documents=2, withheld=3, layout="whole")
        place = save_report(bank.folder, name, row("x"), groups=tuple(groups or ()), corpus=corpus)
        if groups is None:  # of another version, which may not have known groups
            write_sealed(place / "report.json", {**read_sealed(place / "report.json"), "format": 0})
    seen = {}
    for who, key in (("reviewer", reviewer), ("hr", of_hr), ("admin", keys["admin"])):
        with server.client(key) as client:
            seen[who] = {one["id"] for one in client.get("/v1/reports").json()["reports"]}
            told = "withheld" in client.get("/v1/reports/open").text
            assert told == (who == "admin"), "only who may read everything learns how much was left out"
            assert client.get("/v1/reports/all").status_code == (200 if who == "admin" else 404)
    assert seen == {"reviewer": {"open"}, "hr": {"open", "pay"}, "admin": {"open", "pay", "all", "old"}}


def test_a_question_about_a_restricted_document_is_not_shown(bank: Home, server: Served, keys: dict[str, str]) -> None:
    from surefind.lab.exam.model import Exam, ExamQuery, Judgment
    from surefind.lab.exam.store import ExamStore

    queries = [
        ExamQuery(f"q{n}", f"question {n}", (Judgment(name, quote="zebra"),))
        for n, name in enumerate(("wires/01.md", "hr/pay.md", "gone.md"))
    ]
    ExamStore(bank.folder / ".surefind" / "exams").save(Exam("mixed", tuple(queries)))
    _, reviewer = Keys(bank.folder / ".surefind").create("examiner", ["review"])
    counts = {}
    for who, key in (("reviewer", reviewer), ("admin", keys["admin"])):
        with server.client(key) as client:
            listed = {one["name"]: one["questions"] for one in client.get("/v1/exams").json()["exams"]}
            counts[who] = (listed["mixed"], len(client.get("/v1/exams/mixed").json()["questions"]))
    assert counts == {"reviewer": (1, 1), "admin": (3, 3)}


def test_an_open_server_closes_when_the_first_key_is_made(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = a_bank(Home(tmp_path_factory.mktemp("closing")))
    with serving(home.folder, "--as", "hr") as server:
        assert "hr/pay.md" in _documents(server, "")
        _, text = Keys(home.folder / ".surefind").create("first", ["read"])
        with server.client() as client:
            assert client.get("/v1/documents").status_code == 401
        assert "hr/pay.md" not in _documents(server, text)


def test_agents_see_what_their_key_may_read(server: Served, keys: dict[str, str]) -> None:
    """Two agents at once, each with its own rights."""
    import asyncio

    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    async def ask(key: str) -> tuple[list[str], str]:
        headers = {"Authorization": f"Bearer {key}"}
        async with (
            create_mcp_http_client(headers=headers) as http,
            Client(streamable_http_client(f"{server.url}/mcp", http_client=http)) as client,
        ):
            tools = [tool.name for tool in (await client.list_tools()).tools]
            texts = []
            for _ in range(5):
                found = await client.call_tool("search", {"query": "cutoff of salaries"})
                texts.append(str(found))
            if "propose" in tools:
                await client.call_tool("propose", {"document": "ideas.md", "text": "An idea of an agent."})
            return tools, " ".join(texts)

    async def both() -> list[tuple[list[str], str]]:
        return await asyncio.gather(ask(keys["reader"]), ask(keys["hr"]), ask(keys["writer"]))

    (reader, read), (_, of_hr), (writer, _) = asyncio.run(both())
    assert "zebra" not in read and "zebra" in of_hr
    assert "propose" not in reader and "propose" in writer and {"search", "ask", "read", "browse"} <= set(reader)
    with server.client() as client:
        assert client.post("/mcp", json={}).status_code == 401
    with server.client(keys["writer"]) as client:  # who lists its own drafts, and those alone
        assert "ideas.md" in [draft["document"] for draft in client.get("/v1/drafts").json()["drafts"]]
