"""surefind.toml is edited as its owner wrote it: one value changes, everything else stays to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from surefind.base.errors import ConfigError
from surefind.kb.settings import file as settings_file
from surefind.kb.settings.config import TEMPLATE, load_settings
from surefind.kb.settings.file import Place, changed, read_settings, write_settings

HYBRID = '[pipelines.hybrid]\nretrieve = ["bm25"]\n'
MINE = {"retrieve": ["bm25", "dense"], "fuse": "rrf(k=60)"}
TABLE = '[pipelines.mine]\nretrieve = ["bm25", "dense"]\nfuse = "rrf(k=60)"\n'


def set_values(path: Path, changes: dict[Place, object]) -> None:
    write_settings(path, changed(read_settings(path), changes, str(path)))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "surefind.toml"
    path.write_text("[search]\nk = 5\n", encoding="utf-8")
    return path


# ---------------------------------------------------------------- odd spellings


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("[search]\nk = 5\n\n", "[search]\nk = 7\n\n", id="plain"),
        pytest.param("search.k = 5\n\n", "search.k = 7\n\n", id="dotted"),
        pytest.param("search = { k = 5 }  # few\n", "search = { k = 7 }  # few\n", id="inline table"),
        pytest.param('[ "search" ]\n"k" = 5\n', '[ "search" ]\n"k" = 7\n', id="quoted"),
        pytest.param("['search']\n\tk=5\n", "['search']\n\tk=7\n", id="quoted, tab"),
        pytest.param("[search] # s\nk = 5   # few\n", "[search] # s\nk = 7   # few\n", id="comment after the value"),
        pytest.param("# top\n[search]\n# why\n", "# top\n[search]\n# why\nk = 7\n", id="no such key"),
        pytest.param("[search]\r\nk = 5 # few\r\n", "[search]\r\nk = 7 # few\r\n", id="CRLF"),
        pytest.param("[search]\r\n", "[search]\r\nk = 7\r\n", id="CRLF, no such key"),
        pytest.param("[search]\nk = 5", "[search]\nk = 7\n", id="no final newline"),
        pytest.param("[search]", "[search]\nk = 7\n", id="no final newline, no such key"),
        pytest.param("# mine", "# mine\n\n[search]\nk = 7\n", id="a comment alone"),
        pytest.param("", "[search]\nk = 7\n", id="empty"),
        pytest.param(HYBRID, f"{HYBRID}\n[search]\nk = 7\n", id="no such table"),
        pytest.param(f"[search]\n\n{HYBRID}", f"[search]\nk = 7\n\n{HYBRID}", id="tables behind it"),
    ],
)
def test_value_is_set_and_the_rest_stays(before: str, after: str) -> None:
    assert changed(before, {("search", "k"): 7}, "surefind.toml") == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(HYBRID, f"{HYBRID}\n{TABLE}", id="last"),
        pytest.param(HYBRID.rstrip(), f"{HYBRID}\n{TABLE}", id="no final newline"),
        pytest.param(f"{HYBRID}\n[search]\nk = 5\n", f"{HYBRID}\n{TABLE}\n[search]\nk = 5\n", id="before others"),
        pytest.param(HYBRID.replace("\n", "\r\n"), f"{HYBRID}\n{TABLE}".replace("\n", "\r\n"), id="CRLF"),
    ],
)
def test_table_is_added_and_the_rest_stays(before: str, after: str) -> None:
    assert changed(before, {("pipelines", "mine"): MINE}, "surefind.toml") == after


@pytest.mark.parametrize(
    "before",
    [
        TEMPLATE,
        'pipelines = { hybrid = { retrieve = ["bm25"] } }\n',
        '[pipelines]\nhybrid.retrieve = ["bm25"]\n',
        'pipelines.hybrid.retrieve = ["bm25"]\n\n# ours\n[search]\nk = 5\n',
        '[pipelines."a b"]\nretrieve = ["bm25"]\n[search]\nk = 5\n[pipelines.hybrid]\nretrieve = ["bm25"]\n[index]\n',
    ],
    ids=["template", "inline", "dotted below", "dotted", "in two places"],
)
def test_however_pipelines_are_spelled_another_is_added(tmp_path: Path, before: str) -> None:
    path = tmp_path / "surefind.toml"
    path.write_text(before, encoding="utf-8")
    settings = load_settings(path)
    known = set(settings.pipelines) - {settings.pipeline}
    set_values(path, {("search", "pipeline"): "mine", ("pipelines", "mine"): MINE})
    now = load_settings(path)
    assert (now.pipeline, set(now.pipelines)) == ("mine", known | {"mine"})
    comments = [line for line in before.splitlines() if line.startswith("#")]
    assert [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")] == comments


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[search]\nk = 5\n[search]\nk = 6\n", r"is not valid TOML: .*line 3.*\. It was not changed\."),
        ("[search\n", "is not valid TOML"),
        ("search = 5\n", r"search is not a table\. It was not changed\."),
        ("[[search]]\nk = 5\n", "search is not a table"),
    ],
)
def test_file_that_cannot_be_edited_is_refused_and_stays(file: Path, text: str, complaint: str) -> None:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=complaint):
        set_values(file, {("search", "k"): 7})
    assert file.read_text(encoding="utf-8") == text
    assert list(file.parent.iterdir()) == [file]


def test_file_that_is_not_utf8_is_refused(file: Path) -> None:
    file.write_bytes(b"# caf\xe9\n")
    with pytest.raises(ConfigError, match=r"surefind\.toml cannot be read"):
        set_values(file, {("search", "k"): 7})


def test_value_that_surefind_would_not_read_is_not_written(file: Path) -> None:
    with pytest.raises(ConfigError, match="k must be at least 1, not 0"):
        set_values(file, {("search", "k"): 0})
    assert file.read_text(encoding="utf-8") == "[search]\nk = 5\n"


def test_edit_that_would_change_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_file.tomlkit, "dumps", lambda document: "[search]\nk = 7\n")
    with pytest.raises(
        ConfigError, match=r"cannot be edited without changing other settings\. Set search\.k by hand\."
    ):
        changed(f"{HYBRID}[search]\nk = 5\n", {("search", "k"): 7}, "surefind.toml")


# ---------------------------------------------------------------- the file


def test_where_there_is_no_file_the_one_of_init_is_written(tmp_path: Path) -> None:
    set_values(tmp_path / "surefind.toml", {("search", "k"): 7})
    assert (tmp_path / "surefind.toml").read_text(encoding="utf-8") == TEMPLATE.replace("\nk = 10\n", "\nk = 7\n")


def test_write_that_fails_leaves_the_old_file_alone(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(settings_file.os, "fsync", broken)
    with pytest.raises(OSError, match="No space left"):
        set_values(file, {("search", "k"): 7})
    assert file.read_text(encoding="utf-8") == "[search]\nk = 5\n"
    assert list(file.parent.iterdir()) == [file]


def test_mode_and_link_of_the_file_stay(file: Path, tmp_path: Path) -> None:
    file.chmod(0o640)
    link = tmp_path / "link" / "surefind.toml"
    link.parent.mkdir()
    link.symlink_to(file)
    set_values(link, {("search", "k"): 7})
    assert link.is_symlink() and load_settings(file).k == 7
    assert file.stat().st_mode & 0o777 == 0o640
