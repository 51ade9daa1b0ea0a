"""Other users cannot read .surefind, and no message or stored file repeats a secret of a URL."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import WORDS, Home
from surefind.base.disk.sealed import DATA_FOLDER, private_folder
from surefind.base.errors import SourceError, SurefindError
from surefind.base.redact import redacted
from surefind.engine.files.git import GitOrigin
from surefind.engine.llm.address import LLMSettings, parse_model
from surefind.engine.llm.vendors import OpenAIChat

TOKEN = "ghp_Zx81secret"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def open_umask() -> object:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_data_folder_is_closed_to_other_users_after_a_sync(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write("docs/a.md", "alpha").chmod(0o600)
    home.sync("docs")
    assert mode(home.folder / DATA_FOLDER) == 0o700


@pytest.mark.usefixtures("open_umask")
def test_folder_of_an_earlier_version_is_closed_by_the_next_sync_but_a_group_may_share_it(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write("docs/a.md", "alpha")
    data = home.folder / DATA_FOLDER
    data.mkdir(mode=0o755)
    home.sync("docs")
    assert mode(data) == 0o700
    data.chmod(0o750)
    home.sync()
    assert mode(data) == 0o750


@pytest.mark.usefixtures("open_umask")
def test_private_folder_closes_the_data_folder_above_it(tmp_path: Path) -> None:
    made = private_folder(tmp_path / DATA_FOLDER / "exams" / "a")
    assert made.is_dir()
    assert mode(tmp_path / DATA_FOLDER) == 0o700
    elsewhere = private_folder(tmp_path / "open" / "exams")
    assert mode(elsewhere) == 0o755


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"git+https://{TOKEN}@host/a.git", "git+https://[redacted]@host/a.git"),
        ("https://me:pa@ss@host/a", "https://[redacted]@host/a"),
        ("http://me:x@host:80/v1 failed", "http://[redacted]@host:80/v1 failed"),
        ("ssh://git@host/a.git", "ssh://git@host/a.git"),
        ("ssh://git:x@host/a.git", "ssh://git:[redacted]@host/a.git"),
        ("https://host/v1?api-version=1&api_key=abc#m", "https://host/v1?api-version=1&api_key=[redacted]#m"),
        ("https://host/a@b", "https://host/a@b"),
        ("write to a@x.org or https://x.org, b@x.org", "write to a@x.org or https://x.org, b@x.org"),
    ],
)
def test_redacted(text: str, shown: str) -> None:
    assert redacted(text) == shown


def test_errors_never_repeat_a_secret() -> None:
    assert TOKEN not in str(SurefindError(f"https://{TOKEN}@host is gone."))
    with pytest.raises(SourceError) as caught:
        GitOrigin.parse(f"git+ftp://me:{TOKEN}@host/a.git")
    assert TOKEN not in str(caught.value)


def test_token_of_a_repository_is_used_but_neither_shown_nor_compared() -> None:
    origin = GitOrigin.parse(f"git+https://{TOKEN}@host/team/a.git@main")
    assert origin.address == f"https://{TOKEN}@host/team/a.git"
    assert TOKEN not in f"{origin} {origin!r} {origin.url}"
    assert origin == GitOrigin.parse("git+https://host/team/a.git@main")
    assert GitOrigin.parse("git+ssh://git@host/a.git").url == "ssh://git@host/a.git"


def test_token_is_stored_nowhere_and_printed_nowhere(tmp_path: Path) -> None:
    home = Home(tmp_path, WORDS)
    home.write("docs/a.md", "alpha")
    home.sync("docs")
    call = [sys.executable, "-m", "surefind", "sync", f"git+https://{TOKEN}@localhost:9/a.git", "--kb", str(tmp_path)]
    result = subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode != 0
    assert TOKEN not in result.stdout + result.stderr
    for path in (tmp_path / DATA_FOLDER).rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path


def test_stored_token_of_an_earlier_version_is_not_shown(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write("docs/a.md", "alpha")
    home.sync("docs")
    with home.open() as kb:
        db = sqlite3.connect(kb.catalogue.path)
        db.execute(
            "INSERT INTO sources (root, name, origin) VALUES ('git/x/tree', 'a', ?)", (f"git+https://{TOKEN}@h/a",)
        )
        db.commit()
        db.close()
        assert TOKEN not in str(kb.status())


def test_password_in_a_base_url_is_in_no_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"https://me:{TOKEN}@gateway.example/v1")
    chat = OpenAIChat(parse_model("openai:m"), LLMSettings())
    assert TOKEN not in chat.fingerprint
    assert "gateway.example" in chat.fingerprint
