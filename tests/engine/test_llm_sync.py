"""A sync whose layout asks a language model: quoted, within a budget, resumed without paying twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exam_helpers import surefind
from helpers import WORDS, Home
from llm_server import LLMServer

pytest.importorskip("httpx")


@pytest.fixture
def home(tmp_path: Path, llm: LLMServer, toys: None) -> Home:
    """Six files of one passage each; an answer is one token of $0.001, and may be four."""
    made = Home(
        tmp_path / "kb",
        f'{WORDS}\n[index]\nchunk = "whole"\nenrich = ["asks_context"]\n[llm]\nmodel = "{llm.model}"\nconcurrency = 1\n'
        f'[llm.prices]\n"{llm.model}" = [0, 1000]\n',
    )
    for i in range(6):
        made.write(f"docs/{i}.md", f"passage number {i}")
    llm.say("zebra")
    return made


def test_sync_is_quoted_and_asked_for(home: Home, llm: LLMServer) -> None:
    done = surefind("sync", str(home.docs), "--json", kb=home.folder)
    assert (done.code, llm.bodies) == (2, [])
    assert "This may cost money: 6 calls" in done.err
    assert surefind("sync", str(home.docs), "--yes", kb=home.folder).code == 0
    assert len(llm.bodies) == 6
    assert len(home.found("zebra")) == 6


def test_a_sync_is_quoted_for_what_changed(home: Home, llm: LLMServer) -> None:
    """Nothing is asked for where nothing changed, and a sync by the clock needs no --yes for it."""
    (home.docs / "picture.png").write_bytes(b"no reader takes this")
    assert surefind("sync", str(home.docs), "--yes", kb=home.folder).code == 0
    assert surefind("sync", "--json", kb=home.folder).code == 0
    home.write("docs/new.md", "passage number 7")
    assert "This may cost money: 1 calls" in surefind("sync", "--json", kb=home.folder).err
    home.configure((home.folder / "surefind.toml").read_text().replace('"whole"', '"fixed"'))
    assert "This may cost money: 7 calls" in surefind("sync", "--json", kb=home.folder).err


def test_budget_stops_a_sync_and_the_next_one_goes_on(home: Home, llm: LLMServer) -> None:
    stopped = surefind("sync", str(home.docs), "--yes", "--budget", "0.006", kb=home.folder)
    assert stopped.code == 1
    assert "is too small for the next call" in stopped.err
    paid = len(llm.bodies)
    assert 0 < paid < 6
    done = surefind("sync", str(home.docs), "--yes", "--budget", "1", "--json", kb=home.folder)
    assert (done.code, json.loads(done.out)["added"]) == (0, 6)
    assert len(llm.bodies) == 6
