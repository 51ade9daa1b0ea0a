"""Sessions outlive the server, and their files tell nobody a key."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn

from helpers import Home
from http_helpers import SETTINGS, a_bank, serving
from surefind.base.running import started
from surefind.doors import listening
from surefind.doors.auth import sessions
from surefind.doors.auth.keys import Keys
from surefind.doors.auth.sessions import LASTS, Sessions
from surefind.doors.server import create_app
from surefind.kb import KnowledgeBase


def files(data: Path) -> list[Path]:
    return [path for path in (data / "sessions").rglob("*") if path.is_file()]


def test_a_session_outlives_the_server_and_ends(tmp_path: Path) -> None:
    cookie = Sessions(tmp_path).begin("wilma", "sf_secret_key")  # a name that no hexadecimal number contains
    assert Sessions(tmp_path).authorization(cookie) == "Bearer sf_secret_key"
    (file,) = files(tmp_path)
    assert file.stat().st_mode & 0o077 == 0
    assert b"secret" not in file.read_bytes() and cookie not in str(file) and "wilma" not in str(file)
    for other in (f"{cookie}x", "../x", f"../{cookie}", cookie.replace(".", "/"), f"{'0' * 16}.{'x' * 43}", "."):
        assert Sessions(tmp_path).authorization(other) is None
        Sessions(tmp_path).end(other)
    assert files(tmp_path) == [file]
    Sessions(tmp_path).end(cookie)
    assert Sessions(tmp_path).authorization(cookie) is None


def test_a_damaged_file_is_no_session(tmp_path: Path) -> None:
    cookie = Sessions(tmp_path).begin("ada", "key")
    (file,) = files(tmp_path)
    file.write_bytes(file.read_bytes()[:-3] + b"AAA")
    assert Sessions(tmp_path).authorization(cookie) is None


def test_old_sessions_are_forgotten(tmp_path: Path) -> None:
    known = Sessions(tmp_path)
    known.begin("ada", "key")
    (file,) = files(tmp_path)
    (tmp_path / "sessions" / "of an earlier version").write_text("")
    os.utime(file, (0, time.time() - LASTS - 10))
    again = Sessions(tmp_path)
    kept = again.begin("bob", "other")  # looks through all folders, in a thread
    for _ in range(400):
        if len(files(tmp_path)) == 1:
            break
        time.sleep(0.05)
    assert not file.exists() and len(files(tmp_path)) == 1 and again.authorization(kept) == "Bearer other"


def test_sign_ins_of_one_caller_end_no_session_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_MAX_SESSIONS", 3)
    known = Sessions(tmp_path)
    ada = known.begin("ada", "key of ada")
    mallory = [known.begin("mallory", "key of mallory") for _ in range(20)]
    assert known.authorization(ada) == "Bearer key of ada"
    assert len(files(tmp_path)) == 4
    assert sum(known.authorization(cookie) is not None for cookie in mallory) == 3


def test_signing_in_looks_at_no_folder_of_another_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    scan = os.scandir
    known = Sessions(tmp_path)
    monkeypatch.setattr(sessions, "started", lambda work: work())  # looks for old sessions of all callers, once
    known.begin("mallory", "key")
    mine = known.begin("ada", "key")
    monkeypatch.setattr(os, "scandir", lambda path: (looked.append(str(path)), scan(path))[1])
    known.begin("ada", "key")
    assert [Path(path).name for path in looked] == [mine.partition(".")[0]]


def test_files_of_sessions_are_not_touched_by_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow disk at one sign-in keeps no other request waiting, and sign-ins count as requests."""
    home = a_bank(Home(tmp_path))
    home.configure(SETTINGS + "[serve]\nrequests_per_minute = 3\n")
    begun, go_on = threading.Event(), threading.Event()
    begin = Sessions.begin

    def slow(self: Sessions, caller: str, credential: str) -> str:
        begun.set()
        assert go_on.wait(60)
        return begin(self, caller, credential)

    monkeypatch.setattr(Sessions, "begin", slow)
    with home.open() as kb:
        keys = {name: Keys(kb.data).create(name, ["read"])[1] for name in ("ada", "bob")}
        with in_this_process(kb) as url, httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
            signing = started(lambda: httpx.post(f"{url}/sign-in", data={"key": keys["ada"]}, trust_env=False))
            assert begun.wait(60)
            assert http.get("/healthz").status_code == 200
            go_on.set()
            assert signing.result(60).status_code == 303
            codes = [http.post("/sign-in", data={"key": keys["ada"]}).status_code for _ in range(4)]
            assert codes == [303, 303, 429, 429]
            assert http.post("/sign-in", data={"key": keys["bob"]}).status_code == 303


@contextlib.contextmanager
def in_this_process(kb: KnowledgeBase) -> Iterator[str]:
    """Serves from a thread of this process."""
    bound = listening.bind("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(create_app(kb), log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=lambda: server.run(sockets=[bound]), daemon=True)
    thread.start()
    try:
        yield listening.url_of(bound)
    finally:
        server.should_exit = True
        thread.join(60)


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
