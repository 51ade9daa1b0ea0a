"""A clock that is set back by an hour while a server runs signs nobody out, and keeps nothing from being done."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from helpers import Home
from http_helpers import SETTINGS
from surefind.doors.auth.keys import Keys
from surefind.doors.auth.sessions import LASTS, Sessions
from surefind.doors.server import create_app
from test_http_turns import PATIENCE, serving, until

HOUR = 3600.0


def test_server_goes_on_when_the_clock_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path, SETTINGS + "\n[serve]\nrequests_per_minute = 600\n")
    page = home.write("docs/wires/01.md", "# Wire\n\nThe cutoff of alpha is 3 pm.\n")
    home.sync("docs")
    clock, offset = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: clock() + offset[0])
    with home.open() as kb:
        key = Keys(kb.data).create("boss", ["admin"], ["*"], days=1)[1]
        app: Any = create_app(kb)
        with serving(app) as url, httpx.Client(base_url=url, timeout=PATIENCE, trust_env=False) as people:
            programs = httpx.Client(base_url=url, timeout=PATIENCE, headers={"Authorization": f"Bearer {key}"})
            assert people.post("/sign-in", data={"key": key}).status_code == 303
            offset[0] = -HOUR
            assert people.get("/drafts").status_code == 200, "still signed in"
            assert programs.get("/v1/search?query=alpha").json()["hits"]
            made = programs.post("/v1/documents?name=1.md&document=wires/02.md", content="# Two\n\nbeta\n")
            assert made.status_code == 201
            page.write_text("# Wire\n\nThe cutoff of alpha is 4 pm.\n")
            job = programs.post("/v1/jobs", json={"kind": "sync"}).json()["id"]
            until(lambda: bool(programs.get(f"/v1/jobs/{job}").json()["ended"]))
            assert programs.get(f"/v1/jobs/{job}").json()["state"] == "finished"
            assert "4 pm" in programs.get("/v1/search?query=alpha").json()["hits"][0]["text"]
            offset[0] = -3 * HOUR
            shown = people.get(f"/jobs/{job}").text
            assert not re.search(r">-[0-9]+ s<", shown)
            assert people.post("/sign-in", data={"key": key}).status_code == 303
            assert people.get("/drafts").status_code == 200
            offset[0] = 25 * HOUR
            assert programs.get("/v1/search?query=alpha").status_code == 401, "the key ended after a day"
            programs.close()


def test_session_of_another_time_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that began later than now holds as long as one that began before, and not for ever."""
    sessions, clock = Sessions(tmp_path), time.time
    cookie = sessions.begin("ada", "key")
    for offset, holds in ((0, True), (-HOUR, True), (HOUR - LASTS, True), (-LASTS - HOUR, False), (LASTS + 9, False)):
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda offset=offset: clock() + offset)
            assert (sessions.authorization(cookie) is not None) == holds
