"""Sessions outlive the server, and their files tell nobody a key."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from helpers import Home
from http_helpers import a_bank, serving
from surefind.serve.auth import sessions
from surefind.serve.auth.keys import Keys
from surefind.serve.auth.sessions import LASTS, Sessions


def test_a_session_outlives_the_server_and_ends(tmp_path: Path) -> None:
    cookie = Sessions(tmp_path).begin("sf_secret_key")
    assert Sessions(tmp_path).authorization(cookie) == "Bearer sf_secret_key"
    (file,) = (tmp_path / "sessions").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    assert b"secret" not in file.read_bytes() and cookie not in file.name
    assert Sessions(tmp_path).authorization(f"{cookie}x") is None and Sessions(tmp_path).authorization("../x") is None
    Sessions(tmp_path).end(cookie)
    assert Sessions(tmp_path).authorization(cookie) is None


def test_a_damaged_file_is_no_session(tmp_path: Path) -> None:
    cookie = Sessions(tmp_path).begin("key")
    (file,) = (tmp_path / "sessions").iterdir()
    file.write_bytes(file.read_bytes()[:-3] + b"AAA")
    assert Sessions(tmp_path).authorization(cookie) is None


def test_old_sessions_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Sessions(tmp_path)
    known.begin("key")
    (file,) = (tmp_path / "sessions").iterdir()
    os.utime(file, (0, time.time() - LASTS - 10))
    kept = known.begin("other")
    assert not file.exists() and known.authorization(kept) == "Bearer other"
    monkeypatch.setattr(sessions, "_MAX_SESSIONS", 2)
    for _ in range(4):
        known.begin("more")
    assert len(list((tmp_path / "sessions").iterdir())) == 2


def test_people_stay_signed_in_when_the_server_is_restarted(tmp_path: Path) -> None:
    home = a_bank(Home(tmp_path))
    with home.open() as kb:
        key = Keys(kb.data).create("ada", ["read"])[1]
    with serving(home.folder) as server, server.client() as http:
        answer = http.post("/sign-in", data={"key": key})
        cookies = dict(answer.cookies)
        assert answer.status_code == 303 and cookies
    with serving(home.folder) as server, server.client() as http:
        http.cookies.update(cookies)
        assert http.get("/documents", headers={"Accept": "text/html"}).status_code == 200
        with home.open() as kb:
            Keys(kb.data).revoke("ada")
        assert http.get("/documents", headers={"Accept": "text/html"}).status_code in (303, 401)


def test_signing_in_where_nothing_can_be_written_is_one_clear_sentence(tmp_path: Path) -> None:
    home = a_bank(Home(tmp_path))
    with home.open() as kb:
        key = Keys(kb.data).create("ada", ["read"])[1]
        (kb.data / "sessions").write_text("a file where the folder should be, which even root cannot write into")
    with serving(home.folder) as server, server.client() as http:
        answer = http.post("/sign-in", data={"key": key}, headers={"Accept": "text/html"})
        assert answer.status_code == 507 and "set-cookie" not in answer.headers
        assert (
            "Your key is right, but you cannot be signed in: the server cannot write to the folder .surefind "
            "(File exists). Tell whoever runs it." in answer.text
        )
        assert str(home.folder) not in answer.text, "visitors do not learn where the server keeps its files"
        assert http.post("/sign-in", data={"key": "wrong"}).status_code == 401
        assert http.get("/v1/search", params={"query": "wire"}, headers={"Authorization": f"Bearer {key}"}).is_success
